#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// `dimred convert`: a checkpoint as safetensors. Returns the exit code.
int convert_command(const std::vector<std::string>& arguments);

}  // namespace dimred::commands
