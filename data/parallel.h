#pragma once

#include <cstddef>
#include <functional>

namespace dimred::data {

/// Calls work(i) for every i < count from up to `threads` threads (the caller's among them), in
/// ascending order of their beginnings. The first exception ends the others' work at their next i
/// and is thrown again.
void in_parallel(std::size_t count,
                 std::size_t threads,
                 const std::function<void(std::size_t)>& work);

}  // namespace dimred::data
