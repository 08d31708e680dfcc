#include "stage2/subspace.h"

#include "stage2/fused_cuda.h"
#include "stage2/projection.h"
#include "stage2/projection_device.h"
#include "support/errors.h"

namespace dimred::stage2 {
namespace {

bool is_whole(const Subspace& subspace) {
  return subspace.blocks.size() == 1 && subspace.blocks[0].columns.size() == subspace.own_columns;
}

}  // namespace

Subspace::Subspace(const torch::Tensor& basis)
    : blocks{{.columns = {0, basis.size(1)}, .basis = basis}}, own_columns(basis.size(1)) {}

std::int64_t Subspace::components() const {
  std::int64_t sum = 0;
  for (const auto& block : blocks) sum += block.basis.size(0);
  return sum;
}

std::int64_t Subspace::bytes() const {
  std::int64_t sum = 0;
  for (const auto& block : blocks) sum += block.basis.nbytes();
  return sum;
}

Subspace by_blocks(const torch::Tensor& basis,
                   const std::vector<layout::ColumnRange>& ranges,
                   torch::Device device) {
  Subspace result;
  result.own_columns = basis.size(1);
  for (const auto& range : ranges) {
    const auto rows = basis.narrow(1, range.begin, range.size());
    result.blocks.push_back(
        {.columns = range,
         .basis = device.is_cuda() ? device::aligned_rows(rows, device) : rows.clone()});
  }
  return result;
}

std::vector<double> project(const Subspace& subspace,
                            const torch::Tensor& vector,
                            const std::vector<torch::Tensor>& others) {
  std::vector<Product> products;
  for (const auto& [columns, basis] : subspace.blocks) {
    products.push_back({.basis = basis,
                        .vector = vector.narrow(0, columns.begin, columns.size()),
                        .others = {},
                        .algebra = subspace.algebra});
  }
  if (is_whole(subspace)) {
    products.front().others = others;
  } else if (!others.empty()) {
    products.push_back(
        {.basis = {}, .vector = vector, .others = others, .algebra = subspace.algebra});
  }
  return project(products);
}

std::pair<torch::Tensor, torch::Tensor> back_project(const Subspace& subspace,
                                                     std::span<const double> first,
                                                     std::span<const double> second,
                                                     const torch::Tensor& like) {
  if (is_whole(subspace)) return back_project(subspace.blocks[0].basis, first, second);
  std::pair result{torch::zeros_like(like), torch::zeros_like(like)};
  std::size_t row = 0;
  for (const auto& [columns, basis] : subspace.blocks) {
    const auto k = basis.size(0);
    const auto [one, two] = back_project(basis, first.subspan(row, k), second.subspan(row, k));
    result.first.narrow(0, columns.begin, columns.size()).copy_(one);
    result.second.narrow(0, columns.begin, columns.size()).copy_(two);
    row += k;
  }
  return result;
}

namespace {

/// Every rank has every block, without columns where it owns none: the numbers of g_k are summed.
Subspace in_blocks(const torch::Tensor& matrix, const pca::Basis& basis, torch::Device device) {
  if (basis.block_count() == 1)
    return device.is_cuda() ? device::aligned_rows(matrix, device) : matrix;
  std::vector<layout::ColumnRange> ranges(basis.block_count());
  for (const auto& block : basis.blocks) ranges[block.index] = {block.begin, block.end};
  return by_blocks(matrix, ranges, device);
}

}  // namespace

Subspace subspace_of(pca::Basis& basis, const engine::Setup& setup, DeviceAlgebra algebra) {
  const auto own = distributed::own_columns(setup.model.flat.gradient, setup.model.columns);
  if (basis.header.components == 0) {
    Subspace none;
    none.own_columns = own.numel();
    return none;
  }
  const bool wide = basis.dtype == pca::BasisDtype::float32;
  void* values = wide ? static_cast<void*>(basis.values.data()) : basis.bfloats.data();
  auto matrix = torch::from_blob(
      values, {basis.header.components, basis.columns}, wide ? torch::kFloat32 : torch::kBFloat16);
  if (setup.model.device.is_cpu()) return in_blocks(matrix, basis, setup.model.device);
  require(algebra == DeviceAlgebra::aten || basis.header.components <= fused::max_components,
          "[stage2] --device_algebra fused takes at most {} components, received {}; give "
          "--device_algebra aten",
          fused::max_components,
          basis.header.components);
  auto subspace = in_blocks(matrix, basis, setup.model.device);
  subspace.algebra = algebra;
  basis = {};
  return subspace;
}

}  // namespace dimred::stage2
