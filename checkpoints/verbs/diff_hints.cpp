#include "checkpoints/verbs/diff_hints.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>

#include "support/counted.h"
#include "support/formatted.h"
#include "support/printable.h"

namespace dimred::verbs {
namespace {

using NameSet = std::set<std::string, std::less<>>;

constexpr std::string_view compiled_part = "_orig_mod.";

/// A line of a --rename file and the number of names that it maps.
struct RenameLine {
  std::string line;
  std::int64_t names = 0;
};

/// How many of `names` are one of `others` behind each prefix that ends in a dot.
std::map<std::string, std::int64_t> prefixes_of(const std::vector<std::string>& names,
                                                const NameSet& others) {
  std::map<std::string, std::int64_t> prefixes;
  for (const std::string_view name : names)
    for (auto dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1))
      if (others.contains(name.substr(dot + 1))) ++prefixes[std::string(name.substr(0, dot + 1))];
  return prefixes;
}

/// The text as a regular expression that matches it alone.
std::string escaped(std::string_view text) {
  std::string expression;
  for (const char letter : text) {
    if (std::string_view(".\\^$|()[]{}*+?").find(letter) != std::string_view::npos)
      expression += '\\';
    expression += letter;
  }
  return expression;
}

void keep_better(RenameLine& best, const std::string& line, std::int64_t names) {
  if (names > best.names) best = {line, names};
}

std::string without_part(std::string name, std::string_view part) {
  for (auto at = name.find(part); at != std::string::npos; at = name.find(part))
    name.erase(at, part.size());
  return name;
}

}  // namespace

std::string rename_hint(const std::vector<std::string>& only_a,
                        const std::vector<std::string>& only_b) {
  const NameSet names_a(only_a.begin(), only_a.end()), names_b(only_b.begin(), only_b.end());
  RenameLine best;
  for (const auto& [prefix, names] : prefixes_of(only_a, names_b))
    keep_better(best, formatted("^{}(.*) -> \\1", escaped(prefix)), names);
  for (const auto& [prefix, names] : prefixes_of(only_b, names_a))
    keep_better(best, formatted("^(.*)$ -> {}\\1", prefix), names);
  const auto compiled = std::ranges::count_if(only_a, [&](const std::string& name) {
    return name.find(compiled_part) != name.npos &&
           names_b.contains(without_part(name, compiled_part));
  });
  keep_better(best, formatted("{}() -> \\1", escaped(compiled_part)), compiled);
  if (best.names == 0) return {};
  return formatted("hint: --rename FILE with the line {} maps {} of A to B's",
                   printable(best.line),
                   counted(best.names, "name"));
}

}  // namespace dimred::verbs
