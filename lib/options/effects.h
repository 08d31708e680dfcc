#pragma once

#include <string>
#include <vector>

#include "options/condition.h"
#include "options/options.h"

// Which options of a table have an effect beside the values of the others.
namespace dimred {

/// By the rows' present values; a row that has itself no effect is as if it had no value. Throws
/// std::logic_error for a row that the table does not have.
bool holds(const Condition& condition, const OptionTable& table);

/// The names of the rows that decide it, each once: its own, the rows these need, and the choosers
/// of their defaults.
std::vector<std::string> deciding_rows(const Condition& condition, const OptionTable& table);

/// Options that would change nothing beside the others are a misunderstanding: throws
/// std::invalid_argument("[stage1] power has no effect: it needs schedule = polynomial") for the
/// first that a flag, or a file where the row does not allow it, sets to another value than its
/// default, or to any value where a preset decides the default.
void require_effects(const OptionTable& table);

}  // namespace dimred
