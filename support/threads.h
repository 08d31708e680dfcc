#pragma once

#include <cstdint>

namespace dimred {

/// Cores that this process may run on (its affinity mask, which a container or a launcher narrows),
/// at least 1.
std::int64_t available_threads();

}  // namespace dimred
