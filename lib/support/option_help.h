#pragma once

#include <string>

#include "support/options.h"

// What a table says of itself, for people, shells and programs.
namespace dimred {

/// Whether some rows are essential, so that --help is shorter than --help all.
bool has_essential(const OptionTable& table);

/// --help in 100 columns: the essential rows (every row where none is), or all.
std::string text_help(const OptionTable& table, bool all);

/// --help names, for a shell's completion: a line "--name value value" for each option, the values
/// being those of a choice, or PATH.
std::string completion_lines(const OptionTable& table);

/// --help json: {"command", "summary", "options": [...]}, each option with its name, alias, group,
/// help, type (integer, number, boolean, text, path, choice, numbers), limits, choices, default and
/// value (null: unset), level (essential, all), positional, role (null or as OptionRole), resume
/// (free, fixed), persists, rank (one, all), chosen_by (the option whose value decides the default,
/// else null), needs (null, or its text and the options that it depends_on), and whether it acts
/// beside the values of the others.
std::string json_help(const OptionTable& table);

}  // namespace dimred
