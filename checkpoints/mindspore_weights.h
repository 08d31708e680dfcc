#pragma once

#include <string>
#include <string_view>

namespace dimred::checkpoints {

/// MindSpore's name for a parameter as PyTorch's.
std::string name_from_mindspore(std::string_view name);

}  // namespace dimred::checkpoints
