#include "commands/foreign_options.h"

#include <algorithm>

#include "support/errors.h"
#include "support/locations.h"

namespace dimred::commands {

std::filesystem::path take_file(std::vector<std::string>& arguments, const std::string& flag) {
  std::filesystem::path file;
  for (std::size_t i = 0; i < arguments.size();) {
    const bool joined = arguments[i].starts_with(flag + "=");
    if (!joined && arguments[i] != flag) {
      ++i;
      continue;
    }
    const bool has_next = i + 1 < arguments.size() && !arguments[i + 1].starts_with("--");
    const auto value = joined     ? arguments[i].substr(flag.size() + 1)
                       : has_next ? arguments[i + 1]
                                  : "";
    if (value.empty()) throw std::invalid_argument(formatted("{}: needs a file", flag));
    if (looks_like_url(value))
      throw std::invalid_argument(
          formatted("{}: cannot be a URL, received {}", flag, without_credentials(value)));
    if (!file.empty()) throw std::invalid_argument(formatted("{}: given twice", flag));
    file = value;
    const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    arguments.erase(at, at + (joined ? 1 : 2));
  }
  return file;
}

std::string foreign_help(const std::string& flag, const std::string& what) {
  return formatted("\n  {} FILE  {}; `dimred import FILE` says what each line means\n", flag, what);
}

std::vector<std::string> adopt_import(OptionTable& table, const imports::Import& import) {
  const auto& rows = table.rows();
  for (const auto& row : rows) {
    require(row.origin != OptionOrigin::file,
            "[{}] needs --config or a file of another system, received both",
            import.command);
  }
  imports::require_overridden(import, [&](std::string_view name) {
    return std::ranges::any_of(rows, [&](const Option& row) {
      return row.name == name && row.origin == OptionOrigin::flag;
    });
  });
  table.read_entries(imports::entries_of(import));
  return imports::remarks(import);
}

}  // namespace dimred::commands
