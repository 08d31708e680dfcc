#pragma once

#include <filesystem>
#include <string>

namespace dimred::commands {

/// Returns the contents of a .npy file, and of a projection matrix's sidecar. Throws
/// std::runtime_error for a damaged one. Cost: a matrix with a sidecar is read.
std::string inspect_npy(const std::filesystem::path& file);

}  // namespace dimred::commands
