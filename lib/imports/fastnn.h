#pragma once

#include <filesystem>

#include "imports/import.h"

namespace dimred::imports {

/// FastNN's hyper-parameter file: key=value lines, True/False, None (as if not given). Keys that
/// the file leaves out have FastNN's defaults, which are not ours. Throws
/// std::invalid_argument("file:line:column: ...") for a file that is not key=value lines, an
/// unknown key (with the nearest) or a value of another type.
Import read_fastnn(const std::filesystem::path& file);

}  // namespace dimred::imports
