// open_device() of pca_device_test: the kernels of a device, run on this processor.
#include "tests/pca/device/host_device.h"

#include <algorithm>
#include <mutex>

#include "pca/device.h"
#include "pca/device_places.h"
#include "support/errors.h"
#include "tests/tools/host_grid.h"

// Behind the names that it needs.
#include "pca/device_kernels.cuh"

namespace dimred::pca {
namespace {

unsigned grid_of(std::int64_t size, std::int64_t block) {
  return static_cast<unsigned>((size + block - 1) / block);
}

std::vector<float> floats(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count));
}

class ProcessorDevice final : public Device {
 public:
  explicit ProcessorDevice(const DeviceShape& shape)
      : shape_(shape), places_(shape, testing::HostDevice::bytes_for_tiles) {
    for (std::int64_t i = 0; i < places_.count(); ++i)
      tiles_.push_back(floats(shape.rows * shape.tile_columns));
    for (std::int64_t i = 0; i < shape.slots; ++i) {
      host_tiles_.push_back(floats(shape.rows * shape.tile_columns));
      results_.push_back(floats(shape.components * shape.tile_columns));
    }
  }

  void start_gram(bool centred) override {
    start(shape_.rows);
    centred_ = centred;
    combining_ = false;
  }

  void start_components(const std::vector<double>& combinations, std::int64_t stride) override {
    start(shape_.components);
    combinations_ = combinations;
    stride_ = stride;
    combining_ = true;
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
    combining_ ? combine(w, tile, slot) : measure(w, tile);
  }

  float* components(std::int64_t slot) override {
    return results_[static_cast<std::size_t>(slot)].data();
  }

  DeviceSums finish() override {
    DeviceSums sums{size_, total_, -1};
    if (bad_ != none) sums.not_finite = static_cast<std::int64_t>(bad_);
    return sums;
  }

 private:
  static constexpr unsigned long long none = ~0ULL;

  void start(std::int64_t rows) {
    size_ = kSide * squares(rows);
    total_.assign(static_cast<std::size_t>(size_ * size_), 0);
    bad_ = none;
    next_ = 0;
  }

  void measure(const Rows& w, const DeviceTile& tile) {
    std::vector<double> means(static_cast<std::size_t>(tile.width));
    host_grid::launch({grid_of(tile.width, kThreads), 1, 1}, kThreads, [&] {
      column_means(w,
                   tile.width,
                   centred_,
                   static_cast<unsigned long long>(tile.begin),
                   means.data(),
                   &bad_);
    });
    add_gram(w, tile, means.data());
  }

  void combine(const Rows& w, const DeviceTile& tile, std::int64_t slot) {
    auto& result = results_[static_cast<std::size_t>(slot)];
    host_grid::launch(
        {grid_of(tile.width, kSide), grid_of(shape_.components, kSide), 1}, kThreads, [&] {
          combine_rows(combinations_.data(),
                       stride_,
                       static_cast<int>(shape_.components),
                       w,
                       tile.width,
                       result.data(),
                       shape_.tile_columns);
        });
    add_gram(
        {result.data(), shape_.tile_columns, static_cast<int>(shape_.components)}, tile, nullptr);
  }

  void add_gram(const Rows& rows, const DeviceTile& tile, const double* means) {
    const std::int64_t offset = tile.begin % kGramColumns;
    const unsigned blocks = grid_of(offset + tile.width, kGramColumns);
    const auto side = static_cast<unsigned>(squares(rows.count));
    std::vector<double> partial(static_cast<std::size_t>(blocks * size_ * size_));
    host_grid::launch({side * (side + 1) / 2, blocks, 1}, kThreads, [&] {
      gram_blocks(rows, tile.width, offset, means, size_, partial.data());
    });
    host_grid::launch({grid_of(size_ * size_, kThreads), 1, 1}, kThreads, [&] {
      add_blocks(partial.data(), static_cast<int>(blocks), size_ * size_, total_.data());
    });
  }

  DeviceShape shape_;
  TilePlaces places_;
  mutable std::mutex mutex_;                              // of places_
  std::vector<std::vector<float>> tiles_;                 // in each place
  std::vector<std::vector<float>> host_tiles_, results_;  // of each slot
  std::vector<double> combinations_, total_;
  std::int64_t stride_ = 0;
  std::int64_t size_ = 0;
  std::int64_t next_ = 0;
  unsigned long long bad_ = none;
  bool centred_ = true;
  bool combining_ = false;
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
