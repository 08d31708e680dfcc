#include "checkpoints/low_rank_update.h"

#include <algorithm>
#include <utility>

#include "support/fast_clones.h"

namespace dimred::checkpoints {
namespace {

/// sums[i] += factor * row[i]: the loop that each product goes through.
DIMRED_FAST_CLONES void add_multiple(double factor, const double* row, std::span<double> sums) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += factor * row[i];
}

/// A matrix of `rows` rows, stored row by row, as its transposed one is stored.
std::vector<double> transposed(const std::vector<double>& matrix, std::int64_t rows) {
  const auto columns = rows == 0 ? 0 : std::ssize(matrix) / rows;
  std::vector<double> result(matrix.size());
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      result[column * rows + row] = matrix[row * columns + column];
  return result;
}

}  // namespace

LowRankUpdate low_rank_update(std::vector<double> a,
                              std::vector<double> b,
                              std::int64_t rank,
                              bool turned) {
  if (rank == 0) return {};
  const auto rows = std::ssize(b) / rank, columns = std::ssize(a) / rank;
  if (!turned)
    return {.rank = rank, .columns = columns, .left = std::move(b), .right = std::move(a)};
  return {.rank = rank, .columns = rows, .left = transposed(a, rank), .right = transposed(b, rows)};
}

void add_update(const LowRankUpdate& update, std::int64_t first, std::span<double> sums) {
  std::vector<double> products;
  while (update.rank > 0 && !sums.empty()) {
    const auto row = first / update.columns;
    const auto column = first % update.columns;
    const auto count = std::min<std::int64_t>(update.columns - column, std::ssize(sums));
    products.assign(count, 0);
    for (std::int64_t k = 0; k < update.rank; ++k)
      add_multiple(update.left[row * update.rank + k],
                   update.right.data() + k * update.columns + column,
                   products);
    add_multiple(update.scale, products.data(), sums.first(count));
    sums = sums.subspan(count);
    first += count;
  }
}

}  // namespace dimred::checkpoints
