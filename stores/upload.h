#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "stores/download.h"

namespace dimred::stores {

/// Digests of local files by (inode, length, time), so that what stays is read once.
using DigestMemory = std::map<std::string, std::string>;

/// The file or folder `local` at `url`, verified by the sizes there. A file appears as a whole. A
/// folder is complete by its _COMPLETE listing, written last: whoever downloads it sees the earlier
/// upload or this one, whenever this process is killed; a later call completes it and sends only
/// what is missing. Files that are neither in `local` nor of an earlier upload of ours are left
/// alone. Temporary files (.tmp, .part) and hidden ones stay here. Throws StoreError;
/// std::invalid_argument for http, or a folder that holds something else.
Transfer upload(const std::filesystem::path& local,
                const Url& url,
                const StoreOptions& options,
                DigestMemory* memory = nullptr);

/// The same through a store that is open already.
Transfer upload(Store& store,
                const std::filesystem::path& local,
                const Url& url,
                const StoreOptions& options,
                DigestMemory* memory = nullptr);

/// The names below `folder` that upload() sends.
std::vector<std::string> files_to_send(const std::filesystem::path& folder);

}  // namespace dimred::stores
