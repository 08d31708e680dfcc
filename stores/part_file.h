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

/// The same of many files, from a store that cannot begin in the midst of one: what is whole stays
/// when a later one fails.
std::int64_t fetch_together(Store& store,
                            const std::vector<std::pair<Found, std::filesystem::path>>& files,
                            const StoreOptions& options);

}  // namespace dimred::stores
