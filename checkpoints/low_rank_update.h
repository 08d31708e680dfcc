#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Updates of low rank, as LoRA trains them (Hu et al., 2021), added to the weights that they belong
// to.
namespace dimred::checkpoints {

/// scale * left right, [rows, columns]; both factors row by row.
struct LowRankUpdate {
  double scale = 1;
  std::int64_t rank = 0;
  std::int64_t columns = 0;
  std::vector<double> left;   // [rows, rank]
  std::vector<double> right;  // [rank, columns]
};

/// Returns the product B A of LoRA's factors A [rank, columns] and B [rows, rank]; `turned`: its
/// transpose, for a weight that is stored so.
LowRankUpdate low_rank_update(std::vector<double> a,
                              std::vector<double> b,
                              std::int64_t rank,
                              bool turned);

/// Adds the update's elements from number `first` on, counted row by row, to `sums`. The products
/// are summed in the order of the rank and scaled then, so that the result does not depend on how
/// a weight is cut. Cost: rank multiplications an element.
void add_update(const LowRankUpdate& update, std::int64_t first, std::span<double> sums);

}  // namespace dimred::checkpoints
