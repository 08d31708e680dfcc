#pragma once

#include <torch/types.h>

#include <vector>

#include "method/subspace_space.h"
#include "stage2/block.h"
#include "stage2/product.h"

// The algebra of a step by our own CUDA kernels (fused_cuda.h), on PyTorch's current stream. Waits
// for nothing. It has not been measured on a device.
namespace dimred::stage2::fused {

/// The product's sums [k + others] float64 on the device, from one read of P. Products are summed
/// in float32 eight at a time and in float64 from there on, over fixed columns in a fixed order:
/// |error| <= 8 2^-24 sum_j |p_j v_j|.
torch::Tensor project(const Product& product);

/// Vectors [own columns] that a step reads and writes.
struct OwnVectors {
  torch::Tensor gradient;        // g
  torch::Tensor momentum;        // m, changed
  torch::Tensor weights, start;  // w, changed, and its copy; or neither
};

/// m <- gamma m + (g - P' g_k); returns u = P'd - alpha m [own columns], of a P in `blocks`. One
/// pass over P and the vectors; with `weights` given, start = w and w <- w + u in the same pass.
torch::Tensor advance(const std::vector<Block>& blocks,
                      const method::Line& line,
                      const OwnVectors& vectors);

}  // namespace dimred::stage2::fused
