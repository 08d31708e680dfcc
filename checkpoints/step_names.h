#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dimred::checkpoints {

/// Names that carry a step: <prefix><step, at least 8 digits><suffix>.
struct StepNames {
  std::string_view prefix;
  std::string_view suffix;
  /// Throws std::invalid_argument for a negative step.
  std::string name_of(std::int64_t step) const;
  bool matches(std::string_view name) const;
};

constexpr StepNames snapshot_file_names{"snapshot_", ".h5"};
constexpr StepNames state_folder_names{"state_", ""};

/// Files or folders of `folder` so named, oldest (smallest step) first; empty when it is missing.
std::vector<std::filesystem::path> list_steps(const std::filesystem::path& folder, StepNames names);

/// Deletes the oldest, each as a whole, until `keep` are left; never `newest`.
void remove_oldest(const std::filesystem::path& folder,
                   StepNames names,
                   std::int64_t keep,
                   const std::filesystem::path& newest);

}  // namespace dimred::checkpoints
