#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "checkpoints/atomic_file.h"
#include "pca/passes.h"
#include "support/digest.h"

namespace dimred::pca {

/// Ranges of all rows so far, folded by all threads.
class SharedRanges {
 public:
  explicit SharedRanges(std::int64_t k) : ranges_(static_cast<std::size_t>(k)) {}
  std::vector<RowRange> now();
  void fold(const std::vector<RowRange>& other);

 private:
  std::mutex mutex_;
  std::vector<RowRange> ranges_;
};

/// Where a pass puts its pieces of P.
struct PieceTarget {
  checkpoints::AtomicFile& file;
  std::int64_t header_bytes = 0;
  SharedRanges& ranges;
  std::vector<Piece>& pieces;  // [own digest blocks x k]
};

/// Writes digest blocks of P, one after another, each row with the sign that is likely its own.
class PieceWriter {
 public:
  PieceWriter(const PassPlan& plan, PieceTarget& target) : plan_(plan), target_(target) {}

  /// A new block.
  void begin();
  /// Its next columns, of W from `begin` on. rows [k x width], `stride` apart, may be negated.
  void write(std::int64_t begin, std::int64_t width, float* rows, std::int64_t stride);
  /// The block is complete: its digests.
  void finish(std::int64_t block);

 private:
  const PassPlan& plan_;
  PieceTarget& target_;
  std::vector<RowRange> guess_;
  std::vector<RowRange> ranges_;
  std::vector<DigestStream> streams_;
};

}  // namespace dimred::pca
