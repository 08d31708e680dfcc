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

/// Changes to the configuration of rewritten weights.
struct ConfigChange {
  std::string dtype;    // of the weights: F32, BF16, F16; empty: it stays
  bool unties = false;  // the head is no longer the embedding
};

/// Copies a side file with its permissions, config.json with the change.
void copy_side_file(const std::filesystem::path& from,
                    const std::filesystem::path& to,
                    const ConfigChange& change);

/// The names of what is neither a side file of the folder, nor one of `weights`, their index or
/// hidden.
std::vector<std::string> left_behind(const std::filesystem::path& folder,
                                     const std::vector<std::filesystem::path>& weights);

}  // namespace dimred::checkpoints
