#pragma once

#include <string>

namespace dimred::commands {

/// One line of what a device's memory was asked for, out of torch's message, and which options of
/// `command` (stage1, stage2, evaluate, ...) lower it.
std::string memory_advice(const std::string& message, const std::string& command);

}  // namespace dimred::commands
