#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// `dimred completion`: prints a completion script for bash (zsh: with bashcompinit), made from the
/// option tables of all `subcommands`. Returns the exit code.
int completion_command(const std::vector<std::string>& arguments,
                       const std::vector<std::string>& subcommands);

}  // namespace dimred::commands
