#include "data/loader_options.h"

#include <algorithm>

#include "support/errors.h"

namespace dimred::data {

void validate(const LoaderOptions& options, const Order& order, std::int64_t size) {
  constexpr auto place = "data::Loader";
  require(options.prefetch >= 1, place, "needs prefetch >= 1, received ", options.prefetch);
  require(options.threads >= 1, place, "needs threads >= 1, received ", options.threads);
  require(options.parallel_batches >= 0 && options.memory >= 0,
          place,
          "needs parallel_batches and memory >= 0, received ",
          options.parallel_batches,
          " and ",
          options.memory);
  require(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks,
          place,
          "needs 0 <= rank < ranks, received rank = ",
          options.rank,
          ", ranks = ",
          options.ranks);
  require(order.size == size,
          place,
          "needs an order of the dataset's ",
          size,
          " samples, received one of ",
          order.size);
}

std::int64_t bounded_prefetch(const LoaderOptions& options, const ImageShape& shape) {
  if (options.memory == 0) return options.prefetch;
  const auto batch_bytes = std::max<std::int64_t>(
      1, options.batch_size / options.ranks * shape.size() * std::int64_t{sizeof(float)});
  return std::clamp<std::int64_t>(options.memory / batch_bytes - 1, 1, options.prefetch);
}

}  // namespace dimred::data
