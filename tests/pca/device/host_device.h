#pragma once

#include <cstdint>

namespace dimred::pca::testing {

/// What the processor in a device's place does with its next open_device().
struct HostDevice {
  static inline std::int64_t bytes_for_tiles = 0;
  static inline int tiles_filled = 0;  // by the host, so far
};

}  // namespace dimred::pca::testing
