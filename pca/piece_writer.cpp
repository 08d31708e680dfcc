#include "pca/piece_writer.h"

#include <algorithm>
#include <span>

namespace dimred::pca {

std::vector<RowRange> SharedRanges::now() {
  const std::lock_guard lock(mutex_);
  return ranges_;
}

void SharedRanges::fold(const std::vector<RowRange>& other) {
  const std::lock_guard lock(mutex_);
  for (std::size_t j = 0; j < ranges_.size(); ++j) {
    ranges_[j].low = std::min(ranges_[j].low, other[j].low);
    ranges_[j].high = std::max(ranges_[j].high, other[j].high);
  }
}

void PieceWriter::begin() {
  guess_ = target_.ranges.now();
  ranges_ = guess_;
  streams_.clear();
  streams_.resize(guess_.size());
}

void PieceWriter::write(std::int64_t begin, std::int64_t width, float* rows, std::int64_t stride) {
  for (std::size_t j = 0; j < guess_.size(); ++j) {
    const auto index = static_cast<std::int64_t>(j);
    const std::span row(rows + index * stride, static_cast<std::size_t>(width));
    plan_.kernels->extremes(row.data(), width, &ranges_[j].low, &ranges_[j].high);
    if (guess_[j].negative()) {
      for (float& value : row) value = -value;
    }
    streams_[j].update(std::as_bytes(row));
    target_.file.write_at(target_.header_bytes + (index * plan_.source->columns() + begin) * 4,
                          std::as_bytes(row));
  }
}

void PieceWriter::finish(std::int64_t block) {
  Piece* pieces = target_.pieces.data() + block * plan_.components;
  for (std::size_t j = 0; j < guess_.size(); ++j) {
    pieces[j] = {guess_[j].negative(), streams_[j].hex()};
  }
  target_.ranges.fold(ranges_);
}

}  // namespace dimred::pca
