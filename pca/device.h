#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pca/device_choice.h"

// A CUDA device at work on a fit's two passes. The file behind open_device() is a choice of CMake:
// device_cuda.cu, or device_unavailable.cpp without nvcc. C++17, because nvcc reads it, too.
namespace dimred::pca {

/// What a fit's passes need there.
struct DeviceShape {
  DeviceChoice device;
  std::int64_t rows = 0;          // n, of W
  std::int64_t components = 0;    // k, of P
  std::int64_t tile_columns = 0;  // most columns of a tile
  std::int64_t slots = 0;         // tiles under way at a time
  std::int64_t columns = 0;       // of all tiles together
};

/// A tile's columns: of whole blocks of 1024, but for a pass's first and last block.
struct DeviceTile {
  std::int64_t index = 0;  // in its pass, from 0
  std::int64_t begin = 0;  // of W
  std::int64_t width = 0;
};

/// The sums of a pass.
struct DeviceSums {
  std::int64_t stride = 0;       // of a row
  std::vector<double> lower;     // [rows or components, stride] lower triangle
  std::int64_t not_finite = -1;  // first column of W that holds such a value; then no sums
};

/// Products in float64 of float32 tiles. Each sum runs over fixed blocks of 1024 columns, in order,
/// and the blocks are added in order of the tiles: the same bits for any tiles and slots. With
/// centred rows x_i, u = 2^-53 and B blocks: |error of G_ij| <= (1024 + B) u |x_i| |x_j|, and the
/// means' own rounding, n u max |w|, as on a processor; P's entries are rounded to float32 once.
///
/// Calls of one slot come from one thread; submit() of all slots one at a time, tiles in order.
/// Copies and kernels run behind the calls, on streams of their own.
/// Throws std::runtime_error with the CUDA call that failed and its code.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// A pass that adds up the Gram matrix of W's rows, each column less its mean if `centred`.
  virtual void start_gram(bool centred) = 0;
  /// A pass that makes P = C' W, rounded to float32, and adds up P P'. C [rows x stride].
  virtual void start_components(const std::vector<double>& combinations, std::int64_t stride) = 0;

  /// True where tiles of W stay on the device from pass to pass: half of its free memory, or of
  /// this rank's part of it, holds all, or they are no more than the slots.
  virtual bool keeps_tiles() const = 0;
  /// True when this tile does since an earlier pass: it need not be filled again.
  virtual bool holds(const DeviceTile& tile) const = 0;
  /// Page-locked [rows x tile_columns]; waits until the slot's last tile has been copied.
  virtual float* host_tile(std::int64_t slot) = 0;
  /// Starts on a tile: on what host_tile(slot) has, or on what the device holds.
  virtual void submit(std::int64_t slot, const DeviceTile& tile) = 0;
  /// Page-locked [components x tile_columns], P of the slot's last tile; waits for it. May be
  /// written to; valid until the slot's next submit().
  virtual float* components(std::int64_t slot) = 0;
  /// Waits for all tiles, and for P of the last one in each slot.
  virtual DeviceSums finish() = 0;
};

/// Throws std::runtime_error where there is no such device, its driver is too old, its architecture
/// is not one that this was built for, or memory is short (says how much, and what lowers it), and
/// where this was built without nvcc.
std::unique_ptr<Device> open_device(const DeviceShape& shape);

}  // namespace dimred::pca
