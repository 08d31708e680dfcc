#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// Runs `dimred diff`: two checkpoints, tensor by tensor. Returns 0 where they are the same, 1
/// where they differ.
int diff_command(const std::vector<std::string>& arguments);

}  // namespace dimred::commands
