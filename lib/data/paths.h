#pragma once

#include <filesystem>
#include <vector>

// Functions on the paths of data sets.
namespace dimred::data {

/// Whether the path is a pattern with * ? [ ] or {a,b}, and no file or folder of that very name.
bool is_pattern(const std::filesystem::path& path);

/// The paths that the pattern matches, sorted by bytes. Throws std::runtime_error("[scope] ...")
/// when a folder cannot be read.
std::vector<std::filesystem::path> matches(const std::filesystem::path& pattern, const char* scope);

}  // namespace dimred::data
