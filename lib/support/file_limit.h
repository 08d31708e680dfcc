#pragma once

#include <cstddef>

namespace dimred {

/// Half of the files that this process may have open, so that the rest of it has the other half.
std::size_t most_open_files();

}  // namespace dimred
