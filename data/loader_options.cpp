#include "data/loader_options.h"

#include <algorithm>

#include "support/errors.h"

namespace dimred::data {

void validate(const LoaderOptions& options, const Order& order, std::int64_t size) {
  require(
      options.prefetch >= 1, "[data::Loader] needs prefetch >= 1, received {}", options.prefetch);
  require(options.threads >= 1, "[data::Loader] needs threads >= 1, received {}", options.threads);
  require(options.parallel_batches >= 0 && options.memory >= 0,
          "[data::Loader] needs parallel_batches and memory >= 0, received {} and {}",
          options.parallel_batches,
          options.memory);
  require(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks,
          "[data::Loader] needs 0 <= rank < ranks, received rank = {}, ranks = {}",
          options.rank,
          options.ranks);
  require(order.size == size,
          "[data::Loader] needs an order of the dataset's {} samples, received one of {}",
          size,
          order.size);
}

std::int64_t bounded_prefetch(const LoaderOptions& options, const ImageShape& shape) {
  if (options.memory == 0) return options.prefetch;
  const auto batch_bytes = std::max<std::int64_t>(
      1, options.batch_size / options.ranks * shape.size() * std::int64_t{sizeof(float)});
  return std::clamp<std::int64_t>(options.memory / batch_bytes - 1, 1, options.prefetch);
}

}  // namespace dimred::data
