#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "support/console.h"

namespace dimred::commands {

/// Returns a function of (bytes done, bytes in all) that shows `what` and these amounts on the
/// console's progress line, from the third second on. The console outlives it.
std::function<void(std::int64_t done, std::int64_t total)> byte_progress(Console& console,
                                                                         std::string what);

}  // namespace dimred::commands
