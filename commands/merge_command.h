#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// `dimred merge`: checkpoints to one. Returns the exit code.
int merge_command(const std::vector<std::string>& arguments);

}  // namespace dimred::commands
