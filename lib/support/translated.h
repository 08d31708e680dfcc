#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dimred {

/// Our name of the option, or command, that PyTorch's scripts, timm or Lightning call `name`, if it
/// is among `candidates`.
std::optional<std::string> translated(std::string_view name,
                                      const std::vector<std::string>& candidates);

}  // namespace dimred
