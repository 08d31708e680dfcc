#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoints/name_pattern.h"

// Names of tensors by rules: a regular expression and what takes the place of its matches.
namespace dimred::verbs {

using RenameRules = std::vector<checkpoints::NameReplacement>;

/// Reads lines REGEX -> TEXT; `#` begins a comment line. Throws std::invalid_argument naming the
/// line for another syntax, and for a file without a rule.
RenameRules read_rename_rules(const std::filesystem::path& file);

/// Returns the rules of pairs (regular expression, text); `place` begins messages, with a number.
RenameRules rename_rules(const std::vector<std::pair<std::string, std::string>>& pairs,
                         const std::string& place);

/// A name under the rules, and the rule that decided it.
struct Renamed {
  std::string name;
  std::size_t rule = 0;  // the number of rules: none matches
};

/// Returns the name under the first rule whose expression is found in it, replaced everywhere, as
/// Python's re.sub does.
Renamed renamed(const RenameRules& rules, const std::string& name);

}  // namespace dimred::verbs
