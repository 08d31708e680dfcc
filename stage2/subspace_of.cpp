#include "stage2/fused_cuda.h"
#include "stage2/projection_device.h"
#include "stage2/train.h"
#include "support/errors.h"

namespace dimred::stage2 {
namespace {

/// Every rank has every block, without columns where it owns none: the numbers of g_k are summed.
Subspace in_blocks(const torch::Tensor& matrix, const pca::Basis& basis, torch::Device device) {
  if (basis.block_count == 1)
    return device.is_cuda() ? device::aligned_rows(matrix, device) : matrix;
  std::vector<layout::ColumnRange> ranges(static_cast<std::size_t>(basis.block_count));
  for (const auto& block : basis.blocks)
    ranges[static_cast<std::size_t>(block.index)] = {block.begin, block.end};
  return by_blocks(matrix, ranges, device);
}

}  // namespace

Subspace subspace_of(pca::Basis& basis, const training::Setup& setup, DeviceAlgebra algebra) {
  const auto own = distributed::own_columns(setup.flat.gradient, setup.columns);
  if (basis.components == 0) {
    Subspace none;
    none.own_columns = own.numel();
    return none;
  }
  const bool wide = basis.dtype == pca::BasisDtype::float32;
  void* values = wide ? static_cast<void*>(basis.values.data()) : basis.bfloats.data();
  auto matrix = torch::from_blob(
      values, {basis.components, basis.columns}, wide ? torch::kFloat32 : torch::kBFloat16);
  if (setup.device.is_cpu()) return in_blocks(matrix, basis, setup.device);
  require(algebra == DeviceAlgebra::aten || basis.components <= fused::max_components,
          "[stage2] --device_algebra fused takes at most {} components, received {}; give "
          "--device_algebra aten",
          fused::max_components,
          basis.components);
  auto subspace = in_blocks(matrix, basis, setup.device);
  subspace.algebra = algebra;
  basis = {};
  return subspace;
}

}  // namespace dimred::stage2
