#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"

// What lies in a checkpoint's folder beside its weights and training state: configuration,
// tokenizer and the like, which are texts. Of other files nobody knows whether they hold weights.
namespace dimred::checkpoints {

/// The names of the side files in a checkpoint's folder, sorted; an adapter's configuration goes
/// with an adapter alone.
std::vector<std::filesystem::path> side_files(const Checkpoint& checkpoint);

/// Changes to the configuration of rewritten weights.
struct ConfigChange {
  std::string dtype;    // of the weights: F32, BF16, F16; empty: it stays
  bool unties = false;  // the head is no longer the embedding
};

/// Copies a side file with its permissions, config.json with the change.
void copy_side_file(const std::filesystem::path& from,
                    const std::filesystem::path& to,
                    const ConfigChange& change);

/// A configuration. Python's NaN and infinities, which JSON has not, become texts, as all numbers
/// then do. Throws std::runtime_error for another text.
nlohmann::json read_settings(const std::filesystem::path& file);

/// The names of what in a checkpoint's folder is neither a side file, nor one of its files, their
/// index or hidden.
std::vector<std::string> left_behind(const Checkpoint& checkpoint);

}  // namespace dimred::checkpoints
