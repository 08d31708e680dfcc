#include "checkpoints/verbs/rename.h"

#include <cstdint>
#include <map>

#include "support/errors.h"
#include "support/list_lines.h"
#include "support/printable.h"

namespace dimred::verbs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view separator = " -> ";
constexpr std::int64_t most_rule_bytes = std::int64_t{1} << 20;

checkpoints::NameReplacement rule_of(const std::pair<std::string, std::string>& sides,
                                     const std::string& place) {
  return {checkpoints::NamePattern(sides.first, place), sides.second};
}

/// A rule's line without a comment behind it; a regular expression may have a '#'.
std::string rule_text(const std::string& line) {
  const auto arrow = line.find(separator);
  if (arrow == line.npos) return line;
  const auto end = arrow + separator.size();
  const auto text = std::string_view(line).substr(end - 1);  // from the blank on
  return line.substr(0, end) + std::string(without_comment(text));
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
  RenameRules rules;
  for_each_list_line(file, most_rule_bytes, [&](const std::string& line, const std::string& place) {
    rules.push_back(rule_of(checkpoints::split_line(rule_text(line), separator, place), place));
  });
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
    require(!name.empty() || !changed.empty(),
            "[{}] needs a name for each tensor, but a tensor{} has an empty name; a --rename file "
            "with the line ^$ -> NAME names this tensor",
            scope,
            whose);
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
      remarks.push_back(formatted("{}: \"{}\" renames no tensor",
                                  rules[i].pattern().place(),
                                  printable(rules[i].pattern().text())));
  return result;
}

}  // namespace dimred::verbs
