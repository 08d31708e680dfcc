#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stores/store.h"

namespace dimred::stores {

struct Transfer {
  std::int64_t files = 0;     // transferred
  std::int64_t bytes = 0;     // of them, that crossed the wire in this call
  std::int64_t present = 0;   // files that were there already
  std::int64_t left_out = 0;  // files that an upload leaves here
};

/// What lies there: files below a folder, or the one file with an empty name; empty for nothing.
/// Listed files carry the digest as etag.
struct Found {
  Item item;           // the name is the file's
  Url url;             // of the object
  std::string digest;  // of the listing; else empty
};
std::vector<Found> find(Store& store, const Url& url, const StoreOptions& options);

/// The same of all files of a folder that can be listed.
std::vector<Found> find_in_folder(Store& store, const Url& folder, const StoreOptions& options);

/// Whether the URL's last part is a pattern.
bool is_pattern(const Url& url);

/// Whether it is that pattern's.
bool matches_pattern(const Url& url, const std::string& name);

/// A file that is found, and the local one that it shall be.
struct Wanted {
  Found found;
  std::filesystem::path to;
};

/// What was found at `url`, as `local`. Throws std::invalid_argument when that is nothing, or a
/// file where a folder lies here, or the other way round.
std::vector<Wanted> as_local(const Url& url,
                             const std::vector<Found>& found,
                             const std::filesystem::path& local);

/// The same, whatever lies here. Throws std::invalid_argument when nothing was found.
std::vector<Wanted> placed_at(const Url& url,
                              const std::vector<Found>& found,
                              const std::filesystem::path& local);

/// Brings those that the journal does not know, and notes each when it is whole. Throws as
/// download().
class Journal;
Transfer bring_files(Store& store,
                     const std::vector<Wanted>& wanted,
                     const StoreOptions& options,
                     Journal* journal);

/// The file or folder at `url` as `local`. A file appears under its name when it is whole and,
/// where the folder has a _COMPLETE listing, has the listed digest; until then it is NAME.part,
/// which a later call continues when size and etag are still the same. What a call that was cut
/// has brought of a folder is not brought again (it is noted in .part.of there until all is), nor
/// a file of the listed digest. A name with * or [ in its last part is a pattern over the files of
/// its folder; `local` is then a folder. Throws StoreError; std::invalid_argument when there is
/// nothing at `url`; std::runtime_error for the local disk.
Transfer download(const Url& url, const std::filesystem::path& local, const StoreOptions& options);

/// The same through a store that is open already; of what was found there already.
Transfer download(Store& store,
                  const Url& url,
                  const std::filesystem::path& local,
                  const StoreOptions& options);
Transfer download(Store& store,
                  const Url& url,
                  const std::vector<Found>& found,
                  const std::filesystem::path& local,
                  const StoreOptions& options);

}  // namespace dimred::stores
