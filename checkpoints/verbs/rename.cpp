#include "checkpoints/verbs/rename.h"

#include <cstdint>
#include <map>
#include <sstream>

#include "support/atomic_file.h"
#include "support/byte_order_mark.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::verbs {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_rule_bytes = std::int64_t{1} << 20;

checkpoints::NameReplacement rule_of(const std::pair<std::string, std::string>& sides,
                                     const std::string& place) {
  return {checkpoints::NamePattern(sides.first, place), sides.second};
}

std::string renamed_by_first(const RenameRules& rules,
                             const std::string& name,
                             std::vector<bool>& used) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!rules[i].pattern().searches(name)) continue;
    used[i] = true;
    return rules[i].replaced(name);
  }
  return name;
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
  require(!rules.empty(), "'{}' needs at least one line REGEX -> TEXT, received none", file);
  return rules;
}

RenameRules rename_rules(const std::vector<std::pair<std::string, std::string>>& pairs,
                         const std::string& place) {
  RenameRules rules;
  for (const auto& pair : pairs)
    rules.push_back(rule_of(pair, formatted("{} {}", place, rules.size() + 1)));
  return rules;
}

std::vector<std::string> renamed(const std::vector<std::string>& names,
                                 const RenameRules& rules,
                                 std::string_view scope,
                                 std::string_view whose,
                                 std::vector<std::string>& remarks) {
  std::vector<std::string> result;
  std::map<std::string_view, std::string_view> sources;
  std::vector<bool> used(rules.size());
  result.reserve(names.size());  // so that the views stay
  for (const auto& name : names) {
    result.push_back(renamed_by_first(rules, name, used));
    const auto& changed = result.back();
    require(!changed.empty(),
            "[{}] --rename gives \"{}\"{} an empty name",
            scope,
            printable(name),
            whose);
    const auto [other, fresh] = sources.emplace(changed, name);
    require(fresh,
            "[{}] --rename gives \"{}\" and \"{}\"{} the same name, \"{}\"",
            scope,
            printable(std::string(other->second)),
            printable(name),
            whose,
            printable(changed));
  }
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (!used[i])
      remarks.push_back(formatted("{}: \"{}\" decides no tensor's name",
                                  rules[i].pattern().place(),
                                  printable(rules[i].pattern().text())));
  return result;
}

}  // namespace dimred::verbs
