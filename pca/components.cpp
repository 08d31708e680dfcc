#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "pca/lines.h"
#include "pca/ordered_sum.h"
#include "pca/passes.h"
#include "support/digest.h"

namespace dimred::pca {
namespace {

/// Ranges of all rows so far, folded by all threads.
class SharedRanges {
 public:
  explicit SharedRanges(std::int64_t k) : ranges_(static_cast<std::size_t>(k)) {}

  std::vector<RowRange> now() {
    const std::lock_guard lock(mutex_);
    return ranges_;
  }

  void fold(const std::vector<RowRange>& other) {
    const std::lock_guard lock(mutex_);
    for (std::size_t j = 0; j < ranges_.size(); ++j) {
      ranges_[j].low = std::min(ranges_[j].low, other[j].low);
      ranges_[j].high = std::max(ranges_[j].high, other[j].high);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<RowRange> ranges_;
};

/// Where a pass puts its results.
struct Target {
  checkpoints::AtomicFile& file;
  std::int64_t header_bytes = 0;
  SharedRanges& ranges;
  std::vector<Piece>& pieces;
};

/// Writes one digest block of P and adds its share of P P'.
class ComponentsWork {
 public:
  ComponentsWork(const PassPlan& plan, const std::vector<double>& combinations, Target& target)
      : plan_(plan),
        combinations_(combinations),
        target_(target),
        rows_(plan.source->rows()),
        tile_stride_(plan.tile_width + kColumnSlack),
        stride_(plan.write_width + kColumnSlack),
        gram_rows_(padded(plan.components, plan.kernels->row_unit)),
        tile_(static_cast<std::size_t>(rows_ * tile_stride_)),
        result_(static_cast<std::size_t>(padded(plan.components, kComponentUnit) * stride_)),
        panel_(static_cast<std::size_t>(gram_rows_ * kPanelStride)),
        scratch_(static_cast<std::size_t>(rows_ * kColumnSlack)) {}

  void operator()(std::int64_t block, std::span<double> partial) {
    guess_ = target_.ranges.now();
    ranges_ = guess_;
    streams_.clear();
    streams_.resize(guess_.size());
    const auto [first, end] = plan_.block(block, kDigestColumns);
    for (std::int64_t begin = first; begin < end; begin += plan_.write_width) {
      const std::int64_t width = std::min(plan_.write_width, end - begin);
      for (std::int64_t c = 0; c < width; c += plan_.tile_width) {
        combine_tile(begin + c, c, std::min(plan_.tile_width, width - c), partial);
      }
      write(begin, width);
    }
    Piece* pieces = target_.pieces.data() + block * plan_.components;
    for (std::size_t j = 0; j < guess_.size(); ++j) {
      pieces[j] = {guess_[j].negative(), streams_[j].hex()};
    }
    target_.ranges.fold(ranges_);
  }

 private:
  /// result[:, at : at + width] from the columns of W at `begin`.
  void combine_tile(std::int64_t begin,
                    std::int64_t at,
                    std::int64_t width,
                    std::span<double> partial) {
    plan_.source->read_tile(begin, width, tile_.data(), tile_stride_);
    plan_.kernels->combine(combinations_.data(),
                           padded(plan_.components, kComponentUnit),
                           tile_.data(),
                           tile_stride_,
                           rows_,
                           width,
                           result_.data() + at,
                           stride_,
                           scratch_.data());
    for (std::int64_t c = at; c < at + width; c += kPanelColumns) {
      const std::int64_t part = std::min(kPanelColumns, at + width - c);
      plan_.kernels->widen(result_.data() + c, stride_, plan_.components, part, panel_.data());
      plan_.kernels->gram(panel_.data(), gram_rows_, part, partial.data());
    }
  }

  void write(std::int64_t begin, std::int64_t width) {
    for (std::size_t j = 0; j < guess_.size(); ++j) {
      const auto index = static_cast<std::int64_t>(j);
      const std::span row(result_.data() + index * stride_, static_cast<std::size_t>(width));
      plan_.kernels->extremes(row.data(), width, &ranges_[j].low, &ranges_[j].high);
      if (guess_[j].negative()) {
        for (float& value : row) value = -value;
      }
      streams_[j].update(std::as_bytes(row));
      target_.file.write_at(target_.header_bytes + (index * plan_.source->columns() + begin) * 4,
                            std::as_bytes(row));
    }
  }

  const PassPlan& plan_;
  const std::vector<double>& combinations_;
  Target& target_;
  std::int64_t rows_;
  std::int64_t tile_stride_;
  std::int64_t stride_;
  std::int64_t gram_rows_;
  Lines<float> tile_;
  Lines<float> result_;
  Lines<double> panel_;
  Lines<double> scratch_;
  std::vector<RowRange> guess_;
  std::vector<RowRange> ranges_;
  std::vector<DigestStream> streams_;
};

}  // namespace

Components write_components(const PassPlan& plan,
                            const std::vector<double>& combinations,
                            std::int64_t header_bytes,
                            checkpoints::AtomicFile& file) {
  const std::int64_t blocks = plan.blocks(kDigestColumns);
  const std::int64_t rows = padded(plan.components, plan.kernels->row_unit);
  SharedRanges ranges(plan.components);
  std::vector<Piece> pieces(static_cast<std::size_t>(blocks * plan.components));
  Target target{file, header_bytes, ranges, pieces};
  std::vector<double> gram =
      ordered_sum(blocks, plan.threads, static_cast<std::size_t>(rows * rows), [&]() -> BlockWork {
        const auto work = std::make_shared<ComponentsWork>(plan, combinations, target);
        return [work](std::int64_t block, std::span<double> sum) { (*work)(block, sum); };
      });
  return {std::move(gram), ranges.now(), std::move(pieces)};
}

}  // namespace dimred::pca
