#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "stores/download.h"

namespace dimred::stores {

/// Which files of a folder (names below it) are streamed, in order. `pattern`: the names are those
/// that the URL's pattern matches.
using PickStreamed =
    std::function<std::vector<std::string>(std::vector<std::string> names, bool pattern)>;

/// A place whose large files are fetched when they are needed.
struct StreamedPlace {
  std::vector<Found> shards;      // these
  std::filesystem::path content;  // local, where the others are: the folder, or the pattern in it
  std::filesystem::path entry;    // of the cache: for what belongs to the place
};

/// What is brought beside the files that are streamed: nothing, or of a folder all but our caches
/// (.dimred) and of a pattern those of `beside` that lie beside its files.
struct Rest {
  bool wanted = true;
  std::vector<std::string> beside = {};
};

/// Looks at `url`, a folder or a pattern, parts what `pick` chooses from the rest and brings the
/// rest as far as it is wanted. Throws as bring(); std::invalid_argument when nothing is chosen, or
/// a chosen file has no etag, so that nobody could tell that it changes.
StreamedPlace open_stream(const Url& url,
                          const PickStreamed& pick,
                          const Rest& rest,
                          const StoreOptions& options,
                          Transfer* transfer = nullptr);

/// Brings of a folder at `url` what `pick` chooses alone, of another place what bring() brings.
/// Throws as bring(); std::invalid_argument when nothing of a folder is chosen.
std::filesystem::path bring_chosen(const Url& url,
                                   const PickStreamed& pick,
                                   const StoreOptions& options,
                                   Transfer* transfer = nullptr);

}  // namespace dimred::stores
