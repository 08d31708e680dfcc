#pragma once

#include <filesystem>
#include <string>

namespace dimred::commands {

/// What a .npy file holds, and of a projection matrix what its sidecar says. Throws
/// std::runtime_error for a damaged one. Cost: a matrix with a sidecar is read.
std::string inspect_npy(const std::filesystem::path& file);

}  // namespace dimred::commands
