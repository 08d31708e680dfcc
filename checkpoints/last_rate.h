#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dimred::checkpoints {

/// Reads the header and the rows of a run's curve.csv; a line without its end is still being
/// written.
std::vector<std::string> curve_lines(const std::filesystem::path& file);

/// Returns the learning rate in the last whole row of a run's curve.csv; unset where the run has no
/// such row, or the row no number there, as those of stage 2.
std::optional<double> last_learning_rate(const std::filesystem::path& run);

/// The step of that row; unset where there is none.
std::optional<std::int64_t> last_step(const std::filesystem::path& run);

}  // namespace dimred::checkpoints
