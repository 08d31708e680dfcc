#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "stores/download.h"

namespace dimred::stores {

/// Returns the place of `url` in the cache: <cache>/<kind>/<hash of the URL>/content/<last name>.
struct CachePaths {
  std::filesystem::path entry;
  std::filesystem::path content;
};
CachePaths cache_paths_of(const Url& url, const std::string& kind, const StoreOptions& options);

/// A local copy, and what was transferred for it in this call.
struct Brought {
  std::filesystem::path path;
  Transfer transfer;
};

/// Brings what lies at `url` into the cache, or up to date there. One process of this machine does
/// it while the others wait, and take its result: the copy, or its failure. A process keeps its
/// copy unchanged until it ends; another process gets another copy if the data at the URL change
/// meanwhile. A single .npy brings the .json beside it. Uploaded caches of ours stay there.
Brought bring(const Url& url, const StoreOptions& options);

/// Which files of a folder (names below it) are streamed, in order. `pattern`: the names match the
/// URL's pattern.
using PickStreamed =
    std::function<std::vector<std::string>(std::vector<std::string> names, bool pattern)>;

/// A place whose large files are fetched when they are needed.
struct StreamedFolder {
  std::vector<Found> shards;    // these
  std::filesystem::path entry;  // of the cache: for what belongs to the place
  Brought rest;                 // local, where the others are: the folder, or the pattern in it
};

/// The files to download beside the streamed ones: none; or all of a folder except our caches
/// (.dimred); or those of `beside` that lie beside a pattern's files.
struct Rest {
  bool wanted = true;
  std::vector<std::string> beside = {};
};

/// Looks at `url`, a folder or a pattern, parts what `pick` chooses from the rest and brings the
/// rest as far as it is wanted. Throws as bring(); std::invalid_argument when nothing is chosen, or
/// a chosen file has no etag, so that a change would go unseen.
StreamedFolder open_stream(const Url& url,
                           const PickStreamed& pick,
                           const Rest& rest,
                           const StoreOptions& options);

/// Brings of a folder at `url` what `pick` chooses alone, of another place what bring() brings.
/// Throws as bring(); std::invalid_argument when nothing of a folder is chosen.
Brought bring_chosen(const Url& url, const PickStreamed& pick, const StoreOptions& options);

}  // namespace dimred::stores
