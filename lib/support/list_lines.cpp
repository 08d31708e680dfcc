#include "support/list_lines.h"

#include <sstream>

#include "support/atomic_file.h"
#include "support/byte_order_mark.h"
#include "support/formatted.h"
#include "support/text.h"

namespace dimred {

void for_each_list_line(const std::filesystem::path& file,
                        std::int64_t most,
                        const TakeListLine& take) {
  const auto content = InputFile(file).text(most);
  std::istringstream lines(std::string(without_byte_order_mark(content, file.string())));
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    const auto entry = trimmed(line);
    if (!entry.empty() && !entry.starts_with('#')) take(line, formatted("{}:{}", file, number));
  }
}

std::string_view without_comment(std::string_view line) {
  for (auto at = line.find('#'); at != line.npos; at = line.find('#', at + 1))
    if (at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t') return trimmed(line.substr(0, at));
  return line;
}

}  // namespace dimred
