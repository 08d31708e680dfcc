#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options/options.h"

// What a table says of itself, for people, shells and programs.
namespace dimred {

/// --help is a text in 100 columns: of the essential rows (of every row where none is), or of all.
///
/// --help names is for a shell's completion: a line "--name value value" for each option, the
/// values being those of a choice, or PATH.
///
/// --help json is {"command", "summary", "options": [...]}, each option with its name, alias,
/// group, help, type (integer, number, boolean, text, path, choice, numbers), limits, choices,
/// default and value (null: unset), level (essential, all), positional, role (null or as
/// OptionRole), resume (free, fixed), persists, rank (one, all), chosen_by (the option whose value
/// decides the default, else null), needs (null, or its text and the options that it depends_on),
/// and whether it acts beside the values of the others.
enum class HelpLevel { essential, all, names, json };

std::string help_of(const OptionTable& table, HelpLevel level = HelpLevel::all);

/// The help if --help, or --help with all, json or names, is among the arguments, else nullopt.
/// Other flags beside it decide what the help shows, and are checked for json alone. Another word
/// behind it is a notice of the table.
std::optional<std::string> requested_help(OptionTable& table,
                                          const std::vector<std::string>& arguments);

}  // namespace dimred
