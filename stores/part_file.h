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

/// The same of many files, from a store that cannot begin in the midst of one; each that is whole
/// is `noted` at once. Where no digest tells a file's end from the next one's beginning, the end of
/// a request of some files does.
std::int64_t fetch_together(Store& store,
                            const std::vector<Wanted>& files,
                            const StoreOptions& options,
                            const std::function<void(const Wanted&)>& noted);

}  // namespace dimred::stores
