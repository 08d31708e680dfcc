#include "checkpoints/verbs/rename.h"

#include <cstdint>
#include <sstream>

#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::verbs {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_rule_bytes = std::int64_t{1} << 20;

checkpoints::NameReplacement rule_of(const std::pair<std::string, std::string>& sides,
                                     const std::string& place) {
  return {checkpoints::NamePattern(sides.first, place), sides.second};
}

}  // namespace

RenameRules read_rename_rules(const fs::path& file) {
  const auto content = InputFile(file).text(most_rule_bytes);
  std::istringstream lines(std::string(without_byte_order_mark(content, file.string())));
  RenameRules rules;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (trimmed(line).empty() || trimmed(line).starts_with('#')) continue;
    const auto place = formatted("{}:{}", file, number);
    rules.push_back(rule_of(checkpoints::split_line(line, " -> ", place), place));
  }
  require(!rules.empty(), "'{}' holds no line REGEX -> TEXT", file);
  return rules;
}

RenameRules rename_rules(const std::vector<std::pair<std::string, std::string>>& pairs,
                         const std::string& place) {
  RenameRules rules;
  for (const auto& pair : pairs)
    rules.push_back(rule_of(pair, formatted("{} {}", place, rules.size() + 1)));
  return rules;
}

Renamed renamed(const RenameRules& rules, const std::string& name) {
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (rules[i].pattern().searches(name)) return {rules[i].replaced(name), i};
  return {name, rules.size()};
}

}  // namespace dimred::verbs
