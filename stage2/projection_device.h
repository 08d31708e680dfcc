#pragma once

#include <torch/types.h>

#include <span>
#include <utility>

#include "stage2/product.h"

// projection.h by ATen's own products, for tensors on any device; float32 without TF32, whatever
// the run allows elsewhere. A P in bfloat16 is widened piece by piece, because ATen multiplies
// tensors of one type alone.
namespace dimred::stage2::device {

/// Rows [k x columns] copied to `device`, each on a 128-byte boundary. Not contiguous where columns
/// leave a rest.
torch::Tensor aligned_rows(const torch::Tensor& rows, torch::Device device);

/// The product's sums [k + others] float64, on the device of its vector. Products of 4096 columns
/// at a time are summed in float32, in the library's order, and these sums in float64: |error| <=
/// 4096 2^-24 sum_j |p_j v_j|, and in practice some 1e-6 of that sum. Waits for nothing.
torch::Tensor project(const Product& product);

/// As stage2::back_project, in float32: |error| <= k 2^-24 sum_i |c_i p_ij|. Waits for nothing.
std::pair<torch::Tensor, torch::Tensor> back_project(const torch::Tensor& basis,
                                                     std::span<const double> first,
                                                     std::span<const double> second);

}  // namespace dimred::stage2::device
