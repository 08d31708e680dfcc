#pragma once

#include <torch/types.h>

#include <vector>

namespace dimred::stage2 {

/// Whose products stage 2 uses on a CUDA device: ATen's (projection_device.h), or our own kernels
/// (fused.h), which no device has shown to be faster. A processor has its own loops.
enum class DeviceAlgebra { aten, fused };

/// A vector [columns] and what it is multiplied with.
struct Product {
  torch::Tensor basis;                // P [k x columns]; undefined: none
  torch::Tensor vector;               // v
  std::vector<torch::Tensor> others;  // o [columns] float32, at most two
  DeviceAlgebra algebra = DeviceAlgebra::aten;
};

}  // namespace dimred::stage2
