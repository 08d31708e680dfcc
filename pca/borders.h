#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/shard.h"
#include "support/atomic_file.h"

namespace dimred::pca {

/// P [rows x columns] float32 in memory, or behind a header in a file that hosts cache by pages.
struct MatrixShape {
  std::int64_t rows = 0;     // k
  std::int64_t columns = 0;  // M
  std::int64_t header_bytes = 0;
  std::int64_t page_bytes = 0;

  /// Offset of a value in the file, in bytes.
  std::int64_t offset(std::int64_t row, std::int64_t column) const {
    return header_bytes + (row * columns + column) * 4;
  }
};

/// The values of a rank's columns of P whose pages of the file hold other ranks' values, too, at
/// the two ends of each row. A host's cache keeps and writes whole pages: of two hosts that wrote
/// one page, the later would put its old copy over the other's values. So a rank keeps these, and
/// rank 0 writes everybody's at the end: no page is written from two hosts.
class Borders {
 public:
  /// own: the rank's columns. Memory: at most two pages a row.
  Borders(const MatrixShape& shape, const layout::ColumnRange& own);

  /// `columns` of a row without the kept ones at their two ends: the part that the rank writes.
  layout::ColumnRange trimmed(std::int64_t row, layout::ColumnRange columns) const;
  /// Keeps a copy of those of a row's values from `column` on that lie in shared pages. Several
  /// threads may keep different values.
  void keep(std::int64_t row, std::int64_t column, std::span<const float> values);
  /// Overwrites a row's values from `column` on with the kept ones, where there are any.
  void fill(std::int64_t row, std::int64_t column, std::span<float> values) const;

  /// All kept values of a row, those of the left end first; at most two pages.
  std::span<float> values(std::int64_t row);
  /// Writes the kept values of all rows to their places. Throws std::runtime_error if it cannot.
  void write(AtomicFile& file) const;

 private:
  struct Piece {
    layout::ColumnRange columns;
    std::int64_t start = 0;  // in values_
  };
  template <class Visit>
  void visit(std::int64_t row, std::int64_t column, std::int64_t size, Visit visit) const;

  MatrixShape shape_;
  std::vector<Piece> pieces_;  // [rows x 2]: left and right, each maybe empty
  std::vector<float> values_;
};

}  // namespace dimred::pca
