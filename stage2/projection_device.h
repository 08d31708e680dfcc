#pragma once

#include <torch/types.h>

#include <span>
#include <utility>
#include <vector>

#include "stage2/projection.h"

// projection.h for tensors on a CUDA device: by projection_cuda.h, on PyTorch's current stream,
// with workspaces of its allocator.
namespace dimred::stage2::device {

/// Rows [k x columns] copied to `device`, each on a 128-byte boundary, so that the kernels read
/// them in wide pieces. Not contiguous where columns leave a rest.
torch::Tensor aligned_rows(const torch::Tensor& rows, torch::Device device);

/// As stage2::project. Waits for the stream once.
std::vector<double> project(const std::vector<Product>& products);

/// As stage2::back_project. Waits for nothing.
std::pair<torch::Tensor, torch::Tensor> back_project(const torch::Tensor& basis,
                                                     std::span<const double> first,
                                                     std::span<const double> second);

/// What moves when P' g_k is known, over one range of columns: see cuda::Advance.
struct Advance {
  torch::Tensor gradient;
  torch::Tensor momentum;  // changed
  double gamma = 0;
  double alpha = 0;
  torch::Tensor direction;  // written
  torch::Tensor weights;    // changed; undefined: left out
  torch::Tensor start;      // written with them
};

/// One pass over P (undefined: no rows) and the vectors of `to`. Waits for nothing.
void advance(const torch::Tensor& basis,
             std::span<const double> d,
             std::span<const double> g_k,
             const Advance& to);

}  // namespace dimred::stage2::device
