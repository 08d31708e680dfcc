#include "pca/device_passes.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "pca/ordered_sum.h"
#include "pca/piece_writer.h"
#include "support/errors.h"

namespace dimred::pca {
namespace {

/// Lets threads go in the order of their numbers.
class Turns {
 public:
  /// Until it is `number`'s turn; false when it will never be.
  bool wait(std::int64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || next_ == number; });
    return !stopped_;
  }
  void next() {
    const std::lock_guard lock(mutex_);
    ++next_;
    changed_.notify_all();
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t next_ = 0;
  bool stopped_ = false;
};

/// Reads the tile into its slot unless the device has it, and starts the device on it in its turn.
bool submit(const PassPlan& plan, std::int64_t slot, const DeviceTile& tile, Turns& turns) {
  if (!plan.device->holds(tile)) {
    float* const host = plan.device->host_tile(slot);
    plan.source->read_tile(tile.begin, tile.width, host, kDigestColumns);
  }
  if (!turns.wait(tile.index)) return false;
  plan.device->submit(slot, tile);
  turns.next();
  return true;
}

/// The pass that the device has been started on: submits all tiles, then(slot, tile) after each.
template <class Then>
void for_each_tile(const PassPlan& plan, const Then& then) {
  Turns turns;
  std::atomic<std::int64_t> slots = 0;
  const auto run_tile = [&](std::int64_t slot, std::int64_t index) {
    try {
      const auto [begin, end] = plan.block(index, kDigestColumns);
      const DeviceTile tile{index, begin, end - begin};
      if (submit(plan, slot, tile, turns)) then(slot, tile);
    } catch (...) {
      turns.stop();
      throw;
    }
  };
  ordered_sum(plan.blocks(kDigestColumns), plan.device_slots, 0, [&]() -> BlockWork {
    return [&run_tile, slot = slots++](std::int64_t index, std::span<double>) {
      run_tile(slot, index);
    };
  });
}

/// The sums' lower triangle as gram_matrix() lays it out.
std::vector<double> laid_out(const DeviceSums& sums, std::int64_t rows, std::int64_t stride) {
  std::vector<double> lower(static_cast<std::size_t>(stride * stride));
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(sums.lower.begin() + i * sums.stride, i + 1, lower.begin() + i * stride);
  }
  return lower;
}

}  // namespace

void use_device(PassPlan& plan, const DeviceChoice& device, std::int64_t tile_bytes) {
  if (plan.own.size() == 0) return;
  const std::int64_t rows = plan.source->rows();
  const std::int64_t slot_bytes = (rows + plan.components) * kDigestColumns * 4;
  const std::int64_t most = std::clamp<std::int64_t>(plan.threads, 2, 1 << 10);
  plan.device_slots = std::clamp<std::int64_t>(tile_bytes / slot_bytes, 2, most);
  plan.device = open_device({.device = device,
                             .rows = rows,
                             .components = plan.components,
                             .tile_columns = kDigestColumns,
                             .slots = plan.device_slots,
                             .columns = plan.own.size()});
}

std::vector<double> gram_on_device(const PassPlan& plan) {
  const std::int64_t rows = plan.source->rows();
  plan.device->start_gram(plan.centred);
  for_each_tile(plan, [](std::int64_t, const DeviceTile&) {});
  const DeviceSums sums = plan.device->finish();
  if (sums.not_finite >= 0) {
    std::vector<float> column(static_cast<std::size_t>(rows));
    plan.source->read_tile(sums.not_finite, 1, column.data(), 1);
    require_finite(*plan.source, column.data(), 1, sums.not_finite, 1);
    check(false, "a column whose mean is not finite holds a value that is not finite");
  }
  return laid_out(sums, rows, padded(rows, plan.kernels->row_unit));
}

Components components_on_device(const PassPlan& plan,
                                const std::vector<double>& combinations,
                                std::int64_t header_bytes,
                                checkpoints::AtomicFile& file) {
  const std::int64_t k = plan.components;
  SharedRanges ranges(k);
  std::vector<Piece> pieces(static_cast<std::size_t>(plan.blocks(kDigestColumns) * k));
  PieceTarget target{file, header_bytes, ranges, pieces};
  plan.device->start_components(combinations, padded(k, kComponentUnit));
  for_each_tile(plan, [&](std::int64_t slot, const DeviceTile& tile) {
    PieceWriter writer(plan, target);
    float* const rows = plan.device->components(slot);
    writer.begin();
    writer.write(tile.begin, tile.width, rows, kDigestColumns);
    writer.finish(tile.index);
  });
  return {laid_out(plan.device->finish(), k, padded(k, plan.kernels->row_unit)),
          ranges.now(),
          std::move(pieces)};
}

}  // namespace dimred::pca
