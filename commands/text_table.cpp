#include "commands/text_table.h"

#include <algorithm>

#include "support/formatted.h"
#include "support/text.h"
#include "support/utf8.h"

namespace dimred::commands {

std::string text_row(std::string_view name, std::string_view value) {
  constexpr std::size_t column = 20;
  constexpr auto nothing = "";  // names of other people's files stay on their line
  const std::string gap(name.size() < column ? column - name.size() : 1, ' ');
  return formatted("{}{}{}\n", terminal_text(name, nothing), gap, terminal_text(value, nothing));
}

std::string text_rows(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string text;
  for (const auto& [name, value] : rows) text += text_row(name, value);
  return text;
}

std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t left) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - row[i].size(), ' ');
      text += (i > 0 ? "  " : "") + (i < left ? row[i] + gap : gap + row[i]);
    }
    text += '\n';
  }
  return text;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + '"';
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "scalar" : joined(shape, " x ", count_text);
}

}  // namespace dimred::commands
