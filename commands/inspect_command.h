#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// `dimred inspect FILE`: what a file or folder of ours holds. Returns the exit code: 1 when
/// something in it is damaged.
int inspect_command(const std::vector<std::string>& arguments);

/// True when they ask for --landscape or --model, which are the trainers' program's.
bool needs_network(const std::vector<std::string>& arguments);

}  // namespace dimred::commands
