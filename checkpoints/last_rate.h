#pragma once

#include <filesystem>
#include <optional>

namespace dimred::checkpoints {

/// Returns the learning rate in the last whole row of a run's curve.csv; unset where the run has no
/// such row, or the row no number there, as those of stage 2.
std::optional<double> last_learning_rate(const std::filesystem::path& run);

}  // namespace dimred::checkpoints
