#pragma once

#include <torch/types.h>

#include <memory>
#include <memory_resource>

namespace dimred::engine {

/// Page-locked host memory, from which a CUDA device copies by itself; slow to take, so for buffers
/// that are reused.
std::shared_ptr<std::pmr::memory_resource> pinned_memory(torch::Device device);

}  // namespace dimred::engine
