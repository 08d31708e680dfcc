#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace dimred::pca {

/// Adds the contribution of one block to `partial`, which is zero before.
using BlockWork = std::function<void(std::int64_t block, std::span<double> partial)>;

/// Sum over blocks 0..blocks-1 of what `work` writes into partial [size], added strictly in block
/// order: the same bits for any number of threads. make_work is called once a thread and owns that
/// thread's buffers. A block that is ready early is parked, at most 2 a thread (memory:
/// 3 threads size). The first exception stops all threads and is thrown here.
std::vector<double> ordered_sum(std::int64_t blocks,
                                std::int64_t threads,
                                std::size_t size,
                                const std::function<BlockWork()>& make_work);

}  // namespace dimred::pca
