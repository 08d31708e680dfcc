#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// What lies in a checkpoint's folder beside its weights and training state: configuration,
// tokenizer and the like.
namespace dimred::checkpoints {

/// The names of a folder's side files, sorted.
std::vector<std::filesystem::path> side_files(const std::filesystem::path& folder);

/// Copies a side file with its permissions. A configuration's entry for the type of the weights
/// becomes `dtype` (empty: it stays).
void copy_side_file(const std::filesystem::path& from,
                    const std::filesystem::path& to,
                    std::string_view dtype);

/// The names of what is neither a side file of the folder, nor one of `weights`, their index or
/// hidden.
std::vector<std::string> left_behind(const std::filesystem::path& folder,
                                     const std::vector<std::filesystem::path>& weights);

}  // namespace dimred::checkpoints
