#pragma once

#include <torch/types.h>

#include <span>
#include <utility>
#include <vector>

#include "engine/setup.h"
#include "layout/shard.h"
#include "pca/basis.h"
#include "stage2/block.h"
#include "stage2/product.h"

namespace dimred::stage2 {

/// The subspace that stage 2 descends in: this rank's columns of P. Without blocks there is no
/// subspace, k = 0.
struct Subspace {
  std::vector<Block> blocks;
  std::int64_t own_columns = 0;
  DeviceAlgebra algebra = DeviceAlgebra::aten;

  Subspace() = default;
  /// One block over all own columns of `basis` [k x own columns].
  Subspace(const torch::Tensor& basis);  // NOLINT(google-explicit-constructor): a plain P is one

  std::int64_t components() const;  // of all blocks together
  std::int64_t bytes() const;
};

/// Loads the rows cut into `ranges` of own columns, ascending and disjoint; columns outside all of
/// them (padding) must be zero. Cost: a copy of P, block by block, on `device`.
Subspace by_blocks(const torch::Tensor& basis,
                   const std::vector<layout::ColumnRange>& ranges,
                   torch::Device device = torch::kCPU);

/// g_k = P g [components] float64, blocks one after the other, and behind them o'g for each of
/// `others` [own columns], at most two; this rank's partial sums. See projection.h; on a device the
/// host waits once.
std::vector<double> project(const Subspace& subspace,
                            const torch::Tensor& vector,
                            const std::vector<torch::Tensor>& others = {});

/// (P' first, P' second) [own columns] float32 on the device of `like`; ONE read of P.
std::pair<torch::Tensor, torch::Tensor> back_project(const Subspace& subspace,
                                                     std::span<const double> first,
                                                     std::span<const double> second,
                                                     const torch::Tensor& like);

/// P as the methods take it. On the CPU it borrows the memory of `basis`, which must outlive it; on
/// a device the host copy is given up. No basis: no subspace.
Subspace subspace_of(pca::Basis& basis, const engine::Setup& setup, DeviceAlgebra algebra);

}  // namespace dimred::stage2
