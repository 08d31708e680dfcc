#pragma once

#include <string>
#include <vector>

// `dimred inspect --schedule cosine --epochs 90 ...`: a learning rate drawn before it is used.
namespace dimred::commands {

/// Prints the rate of every step as a drawing and its landmarks; writes --csv. Throws as
/// an option table and schedules::validate do. Returns the exit code.
int inspect_schedule(const std::vector<std::string>& arguments);

}  // namespace dimred::commands
