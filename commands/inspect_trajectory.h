#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// `dimred inspect --trajectory SOURCE`: how a trajectory of snapshots differs from a random
/// walk, whole and by tensor. Returns the exit code.
int inspect_trajectory(const std::vector<std::string>& arguments);

}  // namespace dimred::commands
