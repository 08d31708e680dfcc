#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stores/download.h"

namespace dimred::stores {

/// Where what `url` names lies in the cache: <cache>/<kind>/<hash of the URL>/content/<last name>.
struct CachePlace {
  std::filesystem::path entry;
  std::filesystem::path content;
};
CachePlace place_of(const Url& url, const std::string& kind, const StoreOptions& options);

/// What is brought of a place, where that is not all of it, and under which kind it is kept.
struct Part {
  std::string kind = "inputs";
  std::optional<std::vector<Found>> files = {};  // may be none; unset: what find() finds
};

/// Brings what lies at `url` into the cache, or up to date there, and returns its path. Of several
/// processes of this machine one does it while the others wait, and take what it came to: the copy,
/// or its failure. A copy that a process has got stays as it is until that process ends; who finds
/// other data at the URL meanwhile gets another copy, and the same process is given the same one.
/// A single .npy brings the .json beside it. What others have sent of our caches stays there.
std::filesystem::path bring(const Url& url,
                            const StoreOptions& options,
                            Transfer* transfer = nullptr,
                            const Part& part = {});

}  // namespace dimred::stores
