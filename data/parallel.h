#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>

namespace dimred::data {

/// Calls work(i) for every i < count from up to `threads` threads (the caller's among them), in
/// ascending order of their beginnings. The first exception ends the others' work at their next i
/// and is thrown again; std::runtime_error when a thread cannot be started.
void in_parallel(std::size_t count,
                 std::size_t threads,
                 const std::function<void(std::size_t)>& work);

/// Throws std::runtime_error("[place] cannot start thread K of N: reason").
[[noreturn]] void cannot_start(const char* place,
                               std::int64_t thread,
                               std::int64_t threads,
                               const std::exception& reason);

}  // namespace dimred::data
