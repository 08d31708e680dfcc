#pragma once

#include <torch/types.h>

#include <span>
#include <utility>
#include <vector>

#include "stage2/projection.h"
#include "stage2/subspace.h"

// projection.h and a step for tensors on a CUDA device: by projection_cuda.h, on PyTorch's current
// stream, with workspaces of its allocator.
namespace dimred::stage2::device {

/// Rows [k x columns] copied to `device`, each on a 128-byte boundary, so that the kernels read
/// them in wide pieces. Not contiguous where columns leave a rest.
torch::Tensor aligned_rows(const torch::Tensor& rows, torch::Device device);

/// As stage2::start_project, of one product at least.
training::HostCopy start_project(const std::vector<Product>& products);

/// As stage2::back_project. Waits for nothing.
std::pair<torch::Tensor, torch::Tensor> back_project(const torch::Tensor& basis,
                                                     std::span<const double> first,
                                                     std::span<const double> second);

/// m <- gamma m + (g - P' g_k); returns u = P'd - alpha m [own columns]. One pass over P and the
/// vectors; with `weights` [own columns] given, start = w and w <- w + u in the same pass.
/// Waits for nothing.
torch::Tensor advance(const Subspace& subspace,
                      const InsideStep& inside,
                      const OutsideStep& outside,
                      const torch::Tensor& weights = {},
                      const torch::Tensor& start = {});

}  // namespace dimred::stage2::device
