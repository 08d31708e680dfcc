#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// `dimred import FILE`: what each line of FastNN's hyper-parameters or MindSpore's boost
/// dictionary means here, or how to start the ranks of a rank table; with --output, as a
/// config.toml of ours. Returns the exit code, exit_caller when a line is refused.
int import_command(const std::vector<std::string>& arguments);

}  // namespace dimred::commands
