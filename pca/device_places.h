#pragma once

#include <cstdint>
#include <vector>

#include "pca/device.h"

// Where tiles of W lie on a device. C++17, because nvcc reads it, too.
namespace dimred::pca {

/// Places for all tiles, so that each stays in its own from pass to pass, where `bytes` hold them
/// or they are no more than the slots; else one for each slot.
class TilePlaces {
 public:
  TilePlaces(const DeviceShape& shape, std::int64_t bytes)
      : keeps_(most_tiles(shape) <= shape.slots || most_tiles(shape) * tile_bytes(shape) <= bytes),
        held_(static_cast<std::size_t>(keeps_ ? most_tiles(shape) : shape.slots)) {}

  bool keeps() const { return keeps_; }
  std::int64_t count() const { return static_cast<std::int64_t>(held_.size()); }
  /// Of a tile that is under way in `slot`.
  std::int64_t of(std::int64_t slot, const DeviceTile& tile) const {
    return keeps_ ? tile.index : slot;
  }
  /// True where the tile's place has it since an earlier pass.
  bool holds(const DeviceTile& tile) const {
    if (!keeps_) return false;
    const DeviceTile& held = held_[static_cast<std::size_t>(tile.index)];
    return held.width == tile.width && held.begin == tile.begin;
  }
  /// The tile is put in that place.
  void put(std::int64_t place, const DeviceTile& tile) {
    held_[static_cast<std::size_t>(place)] = tile;
  }

 private:
  /// That meet `columns` columns, wherever the first one begins.
  static std::int64_t most_tiles(const DeviceShape& shape) {
    return (shape.columns + shape.tile_columns - 1) / shape.tile_columns + 1;
  }
  static std::int64_t tile_bytes(const DeviceShape& shape) {
    return shape.rows * shape.tile_columns * 4;
  }

  bool keeps_;
  std::vector<DeviceTile> held_;  // in each place
};

}  // namespace dimred::pca
