#pragma once

#include <string>

#include "support/byte_progress.h"
#include "support/console.h"

namespace dimred::commands {

/// Returns a function of (bytes done, bytes in all) that shows `what` and these amounts on the
/// console's progress line, from the third second on. The console outlives it.
ByteProgress::Say byte_progress(Console& console, std::string what);

}  // namespace dimred::commands
