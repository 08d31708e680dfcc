#pragma once

#include "data/loader.h"

namespace dimred::data {

/// Throws std::invalid_argument unless the options are in range and the order is of `size` samples.
void validate(const LoaderOptions& options, const Order& order, std::int64_t size);

/// Batches ahead that the memory allows, one beyond them being with the caller; at least one.
std::int64_t bounded_prefetch(const LoaderOptions& options, const ImageShape& shape);

}  // namespace dimred::data
