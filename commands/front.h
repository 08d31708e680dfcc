#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// The subcommands, one line each.
std::string front_help();

/// "dimred pca" when the first argument is a subcommand, else "dimred"; for error lines.
std::string program_name(const std::vector<std::string>& arguments);

/// Throws std::invalid_argument with the nearest name unless `name` is a subcommand.
void check_subcommand(const std::string& name);

/// Becomes the program dimred-train, which lies beside this one. Returns only by
/// std::runtime_error: it is not there or cannot be executed.
[[noreturn]] void execute_trainer(const std::vector<std::string>& arguments);

}  // namespace dimred::commands
