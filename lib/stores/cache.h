#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "stores/download.h"

namespace dimred::stores {

/// Where what `url` names lies in the cache: <cache>/<kind>/<hash of the URL>/content/<last name>.
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

/// Brings what lies at `url` into the cache, or up to date there. Of several
/// processes of this machine one does it while the others wait, and take what it came to: the copy,
/// or its failure. A copy that a process has got stays as it is until that process ends; who finds
/// other data at the URL meanwhile gets another copy, and the same process is given the same one.
/// A single .npy brings the .json beside it. Our caches that others have uploaded stay there.
Brought bring(const Url& url, const StoreOptions& options);

/// Which files of a folder (names below it) are streamed, in order. `pattern`: the names are those
/// that the URL's pattern matches.
using PickStreamed =
    std::function<std::vector<std::string>(std::vector<std::string> names, bool pattern)>;

/// A place whose large files are fetched when they are needed.
struct StreamedFolder {
  std::vector<Found> shards;    // these
  std::filesystem::path entry;  // of the cache: for what belongs to the place
  Brought rest;                 // local, where the others are: the folder, or the pattern in it
};

/// The files that are downloaded beside those that are streamed: none, or of a folder all but our
/// caches
/// (.dimred) and of a pattern those of `beside` that lie beside its files.
struct Rest {
  bool wanted = true;
  std::vector<std::string> beside = {};
};

/// Looks at `url`, a folder or a pattern, parts what `pick` chooses from the rest and brings the
/// rest as far as it is wanted. Throws as bring(); std::invalid_argument when nothing is chosen, or
/// a chosen file has no etag, so that nobody could tell that it changes.
StreamedFolder open_stream(const Url& url,
                           const PickStreamed& pick,
                           const Rest& rest,
                           const StoreOptions& options);

/// Brings of a folder at `url` what `pick` chooses alone, of another place what bring() brings.
/// Throws as bring(); std::invalid_argument when nothing of a folder is chosen.
Brought bring_chosen(const Url& url, const PickStreamed& pick, const StoreOptions& options);

}  // namespace dimred::stores
