#pragma once

#include <cstdint>
#include <exception>
#include <functional>

namespace dimred {

/// Calls work(i) for every i < count from up to `threads` threads (the caller's among them), in
/// ascending order of their beginnings. The first exception ends the others' work at their next i
/// and is thrown again; std::runtime_error when a thread cannot be started.
void in_parallel(std::int64_t count,
                 std::int64_t threads,
                 const std::function<void(std::int64_t)>& work);

/// Throws std::runtime_error("[scope] cannot start thread K of N: reason").
[[noreturn]] void cannot_start(const char* place,
                               std::int64_t thread,
                               std::int64_t threads,
                               const std::exception& reason);

/// Cores that this process may run on (its affinity mask, which a container or a launcher narrows),
/// at least 1.
std::int64_t available_threads();

}  // namespace dimred
