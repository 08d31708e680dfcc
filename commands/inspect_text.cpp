#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "commands/inspect.h"
#include "support/errors.h"
#include "support/human.h"
#include "support/option_values.h"

namespace dimred::commands {

std::string text_row(std::string_view name, std::string_view value) {
  constexpr std::size_t column = 20;
  const std::string gap(name.size() < column ? column - name.size() : 1, ' ');
  return concat(name, gap, value, '\n');
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (const auto extent : shape) text += concat(text.empty() ? "" : " x ", count_text(extent));
  return text;
}

std::string loss_text(double loss) { return std::isnan(loss) ? "not measured" : number_text(loss); }

nlohmann::ordered_json read_json(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  require_environment(in.good(), "inspect", "cannot read ", file.string());
  try {
    return nlohmann::ordered_json::parse(in);
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(concat("[inspect] ", file.string(), " is damaged: ", error.what()));
  }
}

}  // namespace dimred::commands
