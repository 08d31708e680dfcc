#include "commands/model_table.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "commands/inspect.h"
#include "support/human.h"

namespace dimred::commands {

std::string model_table(const models::NetworkSummary& summary) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "kind", "weight", "output", "parameters", "multiply-adds"}};
  for (const auto& layer : summary.layers) {
    rows.push_back({layer.name,
                    layer.kind,
                    shape_text(layer.weight),
                    layer.output.empty() ? "-" : shape_text(layer.output),
                    count_text(layer.parameters),
                    layer.multiply_adds == 0 ? "" : count_text(layer.multiply_adds)});
  }
  std::vector<int> widths(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], static_cast<int>(row[i].size()));
  std::ostringstream out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool number = i >= 4;
      out << (i > 0 ? "  " : "") << (number ? std::right : std::left) << std::setw(widths[i])
          << row[i];
    }
    out << '\n';
  }
  return out.str();
}

}  // namespace dimred::commands
