// open_device() of pca_device_test: the kernels of a device, run on this processor.
#include "tests/pca/device/host_device.h"

#include <algorithm>
#include <mutex>

#include "pca/device.h"
#include "pca/device_places.h"
#include "support/errors.h"
#include "tests/tools/host_grid.h"

// Behind the names that it needs.
#include "pca/device_work.cuh"

namespace dimred::pca {
namespace {

/// Runs a kernel.
constexpr auto launch = [](const char* /*name*/, const Grid& grid, auto kernel, auto... arguments) {
  host_grid::launch({grid.x, grid.y, 1}, kThreads, [&] { kernel(arguments...); });
};

std::vector<float> floats(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count));
}

class ProcessorDevice final : public Device {
 public:
  explicit ProcessorDevice(const DeviceShape& shape)
      : shape_(shape),
        places_(shape, testing::HostDevice::bytes_for_tiles),
        means_(static_cast<std::size_t>(shape.tile_columns)),
        partial_(static_cast<std::size_t>(most_blocks(shape) * most_sums(shape))),
        total_(static_cast<std::size_t>(most_sums(shape))) {
    partial_.insert(partial_.end(), total_.size(), untouched);
    for (std::int64_t i = 0; i < places_.count(); ++i)
      tiles_.push_back(floats(shape.rows * shape.tile_columns));
    for (std::int64_t i = 0; i < shape.slots; ++i) {
      host_tiles_.push_back(floats(shape.rows * shape.tile_columns));
      results_.push_back(floats(shape.components * shape.tile_columns));
    }
  }

  void start_gram(bool centred) override { start(gram_pass(shape_, centred)); }

  void start_components(const std::vector<double>& combinations, std::int64_t stride) override {
    start(components_pass(shape_, stride));
    combinations_ = combinations;
  }

  bool keeps_tiles() const override { return places_.keeps(); }

  bool holds(const DeviceTile& tile) const override {
    const std::lock_guard lock(mutex_);
    return places_.holds(tile);
  }

  float* host_tile(std::int64_t slot) override {
    return host_tiles_[static_cast<std::size_t>(slot)].data();
  }

  void submit(std::int64_t slot, const DeviceTile& tile) override {
    const std::lock_guard lock(mutex_);
    check(tile.index == next_++, "tiles come in order");
    auto& values = tiles_.at(static_cast<std::size_t>(places_.of(slot, tile)));
    if (!places_.holds(tile)) {
      places_.put(places_.of(slot, tile), tile);
      values = host_tiles_[static_cast<std::size_t>(slot)];
      ++testing::HostDevice::tiles_filled;
    }
    const Rows w{values.data(), shape_.tile_columns, static_cast<int>(shape_.rows)};
    const Buffers buffers{
        means_.data(), partial_.data(), total_.data(), combinations_.data(), &bad_};
    work_on(launch, pass_, buffers, w, tile, results_[static_cast<std::size_t>(slot)].data());
  }

  float* components(std::int64_t slot) override {
    return results_[static_cast<std::size_t>(slot)].data();
  }

  DeviceSums finish() override {
    const std::int64_t size = pass_.size();
    check(std::all_of(partial_.end() - most_sums(shape_),
                      partial_.end(),
                      [](double value) { return value == untouched; }),
          "the partial sums fit");
    DeviceSums sums{size, {total_.begin(), total_.begin() + size * size}, -1};
    if (bad_ != none) sums.not_finite = static_cast<std::int64_t>(bad_);
    return sums;
  }

 private:
  static constexpr unsigned long long none = ~0ULL;
  static constexpr double untouched = 12345;  // one block behind the partial sums

  void start(const Pass& pass) {
    check(pass.size() * pass.size() <= most_sums(shape_), "the sums fit");
    pass_ = pass;
    std::fill(total_.begin(), total_.end(), 0);
    bad_ = none;
    next_ = 0;
  }

  DeviceShape shape_;
  TilePlaces places_;
  mutable std::mutex mutex_;                              // of places_
  std::vector<std::vector<float>> tiles_;                 // in each place
  std::vector<std::vector<float>> host_tiles_, results_;  // of each slot
  std::vector<double> means_, partial_, total_, combinations_;
  Pass pass_;
  std::int64_t next_ = 0;
  unsigned long long bad_ = none;
};

}  // namespace

std::unique_ptr<Device> open_device(const DeviceShape& shape) {
  require_environment(chosen_among(1, shape.device).number == 0,
                      "pca::device",
                      "there is no CUDA device ",
                      shape.device.number);
  return std::make_unique<ProcessorDevice>(shape);
}

}  // namespace dimred::pca
