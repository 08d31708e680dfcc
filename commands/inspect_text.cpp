#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "commands/inspect.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/human.h"
#include "support/json.h"
#include "support/option_values.h"

namespace dimred::commands {

std::string text_row(std::string_view name, std::string_view value) {
  constexpr std::size_t column = 20;
  constexpr auto nothing = "";  // names of other people's files stay on their line
  const std::string gap(name.size() < column ? column - name.size() : 1, ' ');
  return formatted("{}{}{}\n", terminal_text(name, nothing), gap, terminal_text(value, nothing));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (const auto extent : shape)
    text += formatted("{}{}", text.empty() ? "" : " x ", count_text(extent));
  return text;
}

std::string config_rows(const std::string& toml) {
  std::istringstream lines(toml);
  std::string text;
  for (std::string line; std::getline(lines, line);)
    text += text_row("  " + line.substr(0, line.find(" = ")),
                     line.substr(std::min(line.size(), line.find(" = ") + 3)));
  return text_row("config", "") + text;
}

std::string loss_text(double loss) { return std::isnan(loss) ? "not measured" : number_text(loss); }

nlohmann::ordered_json read_json(const std::filesystem::path& file) {
  const auto text = InputFile(file).text(JsonLimits{}.bytes);
  return parse_ordered_json(text, formatted("[inspect] {} is damaged", file.string()));
}

}  // namespace dimred::commands
