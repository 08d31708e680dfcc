#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// `dimred inspect --trajectory SOURCE`: what of a trajectory of snapshots is more than a random
/// walk shows, whole and by tensor. Returns the exit code.
int inspect_trajectory(const std::vector<std::string>& arguments);

}  // namespace dimred::commands
