#include "checkpoints/last_rate.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string>

#include "checkpoints/run_config.h"
#include "support/text.h"

namespace dimred::checkpoints {

std::optional<double> last_learning_rate(const std::filesystem::path& run) {
  const auto file = run / "curve.csv";
  if (run.empty() || !std::filesystem::is_regular_file(file)) return {};
  std::istringstream in(read_text(file));
  std::string header, last;
  std::getline(in, header);
  for (std::string line; std::getline(in, line) && !in.eof();) last = line;
  const auto names = split_list(header), values = split_list(last);
  const auto column = std::ranges::find(names, "learning_rate") - names.begin();
  if (column >= std::min(std::ssize(names), std::ssize(values))) return {};
  const auto& text = values[static_cast<std::size_t>(column)];
  double rate = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(rate) : std::nullopt;
}

}  // namespace dimred::checkpoints
