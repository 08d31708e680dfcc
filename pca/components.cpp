#include <algorithm>
#include <mutex>
#include <span>

#include "pca/lines.h"
#include "pca/ordered_sum.h"
#include "pca/passes.h"
#include "support/digest.h"

namespace dimred::pca {
namespace {

/// Byte of the file where P[row, column] lies.
std::int64_t offset_of(const PassPlan& plan,
                       std::int64_t header_bytes,
                       std::int64_t row,
                       std::int64_t column) {
  return header_bytes + (row * plan.source->columns() + column) * 4;
}

/// Ranges of all rows, folded by all threads.
class SharedRanges {
 public:
  explicit SharedRanges(std::int64_t k) : ranges_(static_cast<std::size_t>(k)) {}

  void fold(const std::vector<RowRange>& other) {
    const std::lock_guard lock(mutex_);
    for (std::size_t j = 0; j < ranges_.size(); ++j) {
      ranges_[j].low = std::min(ranges_[j].low, other[j].low);
      ranges_[j].high = std::max(ranges_[j].high, other[j].high);
    }
  }
  const std::vector<RowRange>& ranges() const { return ranges_; }

 private:
  std::mutex mutex_;
  std::vector<RowRange> ranges_;
};

/// Writes one block of P and adds its share of P P'.
class ComponentsWork {
 public:
  ComponentsWork(const PassPlan& plan,
                 const std::vector<double>& combinations,
                 std::int64_t header_bytes,
                 checkpoints::AtomicFile& file,
                 SharedRanges& shared)
      : plan_(plan),
        combinations_(combinations),
        header_bytes_(header_bytes),
        file_(file),
        shared_(shared),
        rows_(plan.source->rows()),
        stride_(plan.tile_width + kColumnSlack),
        gram_rows_(padded(plan.components, plan.kernels->row_unit)),
        tile_(static_cast<std::size_t>(rows_ * stride_)),
        result_(static_cast<std::size_t>(padded(plan.components, kComponentUnit) * stride_)),
        panel_(static_cast<std::size_t>(gram_rows_ * kPanelStride)),
        scratch_(static_cast<std::size_t>(rows_ * kColumnSlack)),
        ranges_(static_cast<std::size_t>(plan.components)) {}

  void operator()(std::int64_t block, std::span<double> partial) {
    const std::int64_t end = std::min((block + 1) * kBlockColumns, plan_.source->columns());
    for (std::int64_t begin = block * kBlockColumns; begin < end; begin += plan_.tile_width) {
      const std::int64_t width = std::min(plan_.tile_width, end - begin);
      plan_.source->read_tile(begin, width, tile_.data(), stride_);
      plan_.kernels->combine(combinations_.data(),
                             padded(plan_.components, kComponentUnit),
                             tile_.data(),
                             stride_,
                             rows_,
                             width,
                             result_.data(),
                             stride_,
                             scratch_.data());
      write(begin, width);
      add_gram(width, partial);
    }
    shared_.fold(ranges_);
  }

 private:
  void write(std::int64_t begin, std::int64_t width) {
    for (std::int64_t j = 0; j < plan_.components; ++j) {
      const std::span row(result_.data() + j * stride_, static_cast<std::size_t>(width));
      RowRange& range = ranges_[static_cast<std::size_t>(j)];
      plan_.kernels->extremes(row.data(), width, &range.low, &range.high);
      file_.write_at(offset_of(plan_, header_bytes_, j, begin), std::as_bytes(row));
    }
  }

  void add_gram(std::int64_t width, std::span<double> partial) {
    for (std::int64_t c = 0; c < width; c += kPanelColumns) {
      const std::int64_t part = std::min(kPanelColumns, width - c);
      plan_.kernels->widen(result_.data() + c, stride_, plan_.components, part, panel_.data());
      plan_.kernels->gram(panel_.data(), gram_rows_, part, partial.data());
    }
  }

  const PassPlan& plan_;
  const std::vector<double>& combinations_;
  std::int64_t header_bytes_;
  checkpoints::AtomicFile& file_;
  SharedRanges& shared_;
  std::int64_t rows_;
  std::int64_t stride_;
  std::int64_t gram_rows_;
  Lines<float> tile_;
  Lines<float> result_;
  Lines<double> panel_;
  Lines<double> scratch_;
  std::vector<RowRange> ranges_;
};

}  // namespace

Components write_components(const PassPlan& plan,
                            const std::vector<double>& combinations,
                            std::int64_t header_bytes,
                            checkpoints::AtomicFile& file) {
  SharedRanges shared(plan.components);
  const std::int64_t blocks = padded(plan.source->columns(), kBlockColumns) / kBlockColumns;
  const std::int64_t rows = padded(plan.components, plan.kernels->row_unit);
  std::vector<double> gram =
      ordered_sum(blocks, plan.threads, static_cast<std::size_t>(rows * rows), [&] {
        return BlockWork(ComponentsWork(plan, combinations, header_bytes, file, shared));
      });
  return {std::move(gram), shared.ranges()};
}

std::vector<std::string> finish_components(const PassPlan& plan,
                                           const std::vector<bool>& flip,
                                           std::int64_t header_bytes,
                                           checkpoints::AtomicFile& file) {
  const std::int64_t columns = plan.source->columns();
  const std::int64_t blocks = padded(columns, kDigestColumns) / kDigestColumns;
  std::vector<std::string> digests(static_cast<std::size_t>(blocks));
  for_each_index(blocks, plan.threads, [&](std::int64_t block) {
    const std::int64_t begin = block * kDigestColumns;
    std::vector<float> row(static_cast<std::size_t>(std::min(kDigestColumns, columns - begin)));
    DigestStream stream;
    for (std::int64_t j = 0; j < plan.components; ++j) {
      const std::int64_t offset = offset_of(plan, header_bytes, j, begin);
      checkpoints::read_exactly(
          file.descriptor(), offset, std::as_writable_bytes(std::span(row)), file.temporary_path());
      if (flip[static_cast<std::size_t>(j)]) {
        for (float& value : row) value = -value;
        file.write_at(offset, std::as_bytes(std::span(row)));
      }
      stream.update(std::as_bytes(std::span(row)));
    }
    digests[static_cast<std::size_t>(block)] = stream.hex();
  });
  return digests;
}

}  // namespace dimred::pca
