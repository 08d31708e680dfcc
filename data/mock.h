#pragma once

#include <cstdint>
#include <memory>

#include "data/dataset.h"

namespace dimred::data {

/// Pixels without any file: for pure speed. Sample i is `shape` bytes of one random block of shape
/// + 4 KiB bytes from a place that depends on i; its label is i mod classes. Throws
/// std::invalid_argument unless size, classes and the shape's sides are >= 1.
std::unique_ptr<Dataset> open_mock(std::int64_t size,
                                   const ImageShape& shape,
                                   std::int64_t classes);

}  // namespace dimred::data
