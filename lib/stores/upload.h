#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "stores/download.h"

namespace dimred::stores {

/// Digests of local files by stamp_of(), so that what stays is read once.
using DigestMemory = std::map<std::string, std::string>;

/// Which files of a folder go: none of our caches (.dimred).
enum class Sending {
  run,  // not temporary ones (.tmp, .part, .of) and hidden ones, as a run folder has
  all,  // but for what a download of ours has begun (NAME.part, NAME.part.of)
};
struct Selection {
  std::vector<std::string> names;  // below the folder, sorted; links are followed
  std::int64_t left_out = 0;       // others that somebody may miss
};
Selection files_to_send(const std::filesystem::path& folder, Sending sending);

/// The file or folder `local` at `url`, verified by the sizes there. A file appears as a whole. A
/// folder is complete by its _COMPLETE listing, written last: a download sees the earlier
/// upload or this one, whenever this process is killed (docs/reference/stores.md says why each
/// moment is safe); a later call completes it and sends only what is missing. Files that are
/// neither in `local` nor of an earlier upload of ours are left alone. Throws StoreError;
/// std::invalid_argument for http, a place within `local`, a folder that holds something else or
/// others' files under the same names or the temporary one of a single file, and names that no
/// reader would take.
Transfer upload(const std::filesystem::path& local,
                const Url& url,
                const StoreOptions& options,
                Sending sending,
                DigestMemory* memory = nullptr);

/// Uploads an existing file or folder through an open store.
Transfer upload(Store& store,
                const std::filesystem::path& local,
                const Url& url,
                Sending sending,
                DigestMemory* memory = nullptr);

/// Throws std::invalid_argument where an upload of `local` to a file:// URL would replace a file of
/// other content, or would replace or remove a file that a folder's _COMPLETE lists; a single file
/// of no bytes and other stores pass.
void require_no_other_file(const std::filesystem::path& local,
                           const Url& url,
                           const StoreOptions& options,
                           DigestMemory& memory);

/// Throws std::invalid_argument where the folder of `url` has a _COMPLETE listing, by which readers
/// of this folder would not see what is put at `url`; for file also a folder above that one. A file
/// that the listing has with the content of `local` passes.
void require_outside_listings(const std::filesystem::path& local,
                              const Url& url,
                              const StoreOptions& options);

/// Throws std::invalid_argument where nothing can be written: over HTTP, and to a pattern.
void require_writable(const Url& url);

}  // namespace dimred::stores
