#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "merge/coefficients.h"
#include "pca/source.h"

// Sums of rows of weights by the arithmetic of a merge: float64, in order, rounded once.
namespace dimred::merge {

/// out[M] = the rows `taken` of the source (ascending) times their coefficients; rows of weight 0
/// are not read. Value: float, or double where the source has float64 values. Returns a digest of
/// each row that was read, the same for rows of the same values; empty for the others. Each row is
/// read once; memory beside `out`: threads x 64 Ki x (8 + sizeof(Value)) bytes, and 32 bytes for
/// each 64 Ki values of a row. Throws std::invalid_argument for a value that is not finite, naming
/// row and column, std::runtime_error for I/O errors.
template <class Value>
std::vector<std::string> combine_rows(const pca::SnapshotSource& source,
                                      std::span<const std::int64_t> taken,
                                      const Coefficients& coefficients,
                                      std::span<Value> out,
                                      std::int64_t threads);

/// The mean of rows that come one by one, all of one length. Memory: 8 bytes a column.
class RowMean {
 public:
  void add(std::span<const float> row);
  std::vector<float> values() const;
  std::int64_t count() const { return count_; }

 private:
  std::vector<double> sums_;
  std::int64_t count_ = 0;
};

}  // namespace dimred::merge
