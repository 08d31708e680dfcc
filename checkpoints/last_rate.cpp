#include "checkpoints/last_rate.h"

#include <algorithm>
#include <sstream>

#include "checkpoints/run_config.h"
#include "support/text.h"

namespace dimred::checkpoints {

std::vector<std::string> curve_lines(const std::filesystem::path& file) {
  std::istringstream in(read_text(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line) && !in.eof();) lines.push_back(line);
  return lines;
}

namespace {

/// The number in a column of the last whole row; nothing where there is none.
std::optional<double> last_value(const std::filesystem::path& run, const char* name) {
  const auto file = run / "curve.csv";
  if (run.empty() || !std::filesystem::is_regular_file(file)) return {};
  const auto lines = curve_lines(file);
  if (lines.size() < 2) return {};
  const auto names = split_list(lines.front()), values = split_list(lines.back());
  const auto column = std::ranges::find(names, name) - names.begin();
  if (column >= std::min(std::ssize(names), std::ssize(values))) return {};
  return number_in<double>(values[static_cast<std::size_t>(column)]);
}

}  // namespace

std::optional<double> last_learning_rate(const std::filesystem::path& run) {
  return last_value(run, "learning_rate");
}

std::optional<std::int64_t> last_step(const std::filesystem::path& run) {
  const auto step = last_value(run, "step");
  return step ? std::optional(static_cast<std::int64_t>(*step)) : std::nullopt;
}

}  // namespace dimred::checkpoints
