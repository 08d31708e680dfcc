#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "pca/device_passes.h"
#include "pca/lines.h"
#include "pca/ordered_sum.h"
#include "pca/passes.h"
#include "pca/piece_writer.h"

namespace dimred::pca {
namespace {

/// Writes one digest block of P and adds its share of P P'.
class ComponentsWork {
 public:
  ComponentsWork(const PassPlan& plan, const std::vector<double>& combinations, PieceTarget& target)
      : plan_(plan),
        combinations_(combinations),
        writer_(plan, target),
        rows_(plan.source->rows()),
        tile_stride_(plan.tile_width + kColumnSlack),
        stride_(plan.write_width + kColumnSlack),
        gram_rows_(padded(plan.components, plan.kernels->row_unit)),
        tile_(static_cast<std::size_t>(rows_ * tile_stride_)),
        result_(static_cast<std::size_t>(padded(plan.components, kComponentUnit) * stride_)),
        panel_(static_cast<std::size_t>(gram_rows_ * kPanelStride)),
        scratch_(static_cast<std::size_t>(rows_ * kColumnSlack)) {}

  void operator()(std::int64_t block, std::span<double> partial) {
    writer_.begin();
    const auto [first, end] = plan_.block(block, kDigestColumns);
    for (std::int64_t begin = first; begin < end; begin += plan_.write_width) {
      const std::int64_t width = std::min(plan_.write_width, end - begin);
      for (std::int64_t c = 0; c < width; c += plan_.tile_width) {
        combine_tile(begin + c, c, std::min(plan_.tile_width, width - c), partial);
      }
      writer_.write(begin, width, result_.data(), stride_);
    }
    writer_.finish(block);
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

  const PassPlan& plan_;
  const std::vector<double>& combinations_;
  PieceWriter writer_;
  std::int64_t rows_;
  std::int64_t tile_stride_;
  std::int64_t stride_;
  std::int64_t gram_rows_;
  Lines<float> tile_;
  Lines<float> result_;
  Lines<double> panel_;
  Lines<double> scratch_;
};

}  // namespace

Components write_components(const PassPlan& plan,
                            const std::vector<double>& combinations,
                            std::int64_t header_bytes,
                            checkpoints::AtomicFile& file) {
  if (plan.device) return components_on_device(plan, combinations, header_bytes, file);
  const std::int64_t blocks = plan.blocks(kDigestColumns);
  const std::int64_t rows = padded(plan.components, plan.kernels->row_unit);
  SharedRanges ranges(plan.components);
  std::vector<Piece> pieces(static_cast<std::size_t>(blocks * plan.components));
  PieceTarget target{file, header_bytes, ranges, pieces};
  std::vector<double> gram =
      ordered_sum(blocks, plan.threads, static_cast<std::size_t>(rows * rows), [&]() -> BlockWork {
        const auto work = std::make_shared<ComponentsWork>(plan, combinations, target);
        return [work](std::int64_t block, std::span<double> sum) { (*work)(block, sum); };
      });
  return {std::move(gram), ranges.now(), std::move(pieces)};
}

}  // namespace dimred::pca
