#pragma once

namespace dimred::pca::testing {

/// What the processor in a device's place does with its next open_device().
struct HostDevice {
  static inline bool keeps_tiles = false;  // between passes
  static inline int tiles_filled = 0;      // by the host, so far
};

}  // namespace dimred::pca::testing
