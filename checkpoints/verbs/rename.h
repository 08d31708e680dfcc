#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoints/name_pattern.h"

// Names of tensors by rules: a regular expression and what takes the place of its matches.
namespace dimred::verbs {

using RenameRules = std::vector<checkpoints::NameReplacement>;

/// Reads lines REGEX -> TEXT. A `#` begins a comment at the beginning of a line, and behind a blank
/// of TEXT. Throws std::invalid_argument naming the
/// line for another syntax, and for a file without a rule.
RenameRules read_rename_rules(const std::filesystem::path& file);

/// Returns the rules of pairs (regular expression, text); `place` begins messages, with a number.
RenameRules rename_rules(const std::vector<std::pair<std::string, std::string>>& pairs,
                         const std::string& place);

/// Returns the names under the rules: the first one whose expression is found in a name replaces
/// all its matches, as Python's re.sub does. A rule that decides no name has a line in `remarks`.
/// `whose`, such as " of A", stands behind names in messages. Throws
/// std::invalid_argument("[scope] ...") where two names become one, or one becomes empty.
std::vector<std::string> renamed(const std::vector<std::string>& names,
                                 const RenameRules& rules,
                                 std::string_view scope,
                                 std::string_view whose,
                                 std::vector<std::string>& remarks);

}  // namespace dimred::verbs
