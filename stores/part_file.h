#pragma once

#include <filesystem>

#include "stores/download.h"

namespace dimred::stores {

/// Brings one file to `to` as download() says; returns the bytes that were read. Throws
/// std::runtime_error when another process is at it.
std::int64_t fetch(Store& store,
                   const Found& found,
                   const std::filesystem::path& to,
                   const StoreOptions& options);

}  // namespace dimred::stores
