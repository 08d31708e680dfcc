#pragma once

#include <filesystem>
#include <vector>

#include "stores/journal.h"
#include "stores/listing.h"

namespace dimred::stores {

struct Transfer {
  std::int64_t files = 0;     // transferred
  std::int64_t bytes = 0;     // of them, that crossed the wire in this call
  std::int64_t present = 0;   // files that were there already
  std::int64_t left_out = 0;  // files that an upload leaves here
};

/// The files found at `url`, as `local`. Throws std::invalid_argument when that is nothing.
std::vector<Wanted> placed_at(const Url& url,
                              const std::vector<Found>& found,
                              const std::filesystem::path& local);

/// Brings files that the journal (null: none) does not know, and notes each when it is whole.
/// Throws as download().
Transfer bring_files(Store& store, const std::vector<Wanted>& wanted, Journal* journal);

/// Brings the files found at `url` to `local`. Replaces another existing file only for `overwrite`;
/// knows an equal file by its listed digest, and the files of an interrupted call by its note. A
/// file appears under its name when it is whole and, where the folder has a _COMPLETE listing, has
/// the listed digest; until then it is NAME.part, which a later call continues when size and etag
/// are still the same. Files of a folder that an interrupted call has brought are not brought again
/// (they are noted in .part.of until all are there), nor is a file of the listed digest. A
/// pattern's `local` is a folder. Throws StoreError; std::invalid_argument when nothing was found,
/// or a file where a folder lies here or the other way round, or where another file has the name
/// NAME.part or NAME.part.of; std::runtime_error for the local disk.
Transfer download(Store& store,
                  const Url& url,
                  const std::vector<Found>& found,
                  const std::filesystem::path& local,
                  bool overwrite = false);

}  // namespace dimred::stores
