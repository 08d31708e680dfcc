#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// `dimred store get URL PATH | put PATH URL | ls URL`; returns the exit code.
int store_command(const std::vector<std::string>& arguments);

}  // namespace dimred::commands
