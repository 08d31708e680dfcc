#pragma once

#include "stores/upload.h"

namespace dimred::stores {

/// upload() of a folder: docs/stores.md says in which order, and why each moment is safe.
Transfer upload_folder(Store& store,
                       const std::filesystem::path& local,
                       const Url& url,
                       const StoreOptions& options,
                       const Selection& selection,
                       DigestMemory* memory);

}  // namespace dimred::stores
