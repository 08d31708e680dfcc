#include "data/order.h"

#include <algorithm>

#include "support/errors.h"
#include "support/random.h"

namespace dimred::data {

std::int64_t Order::at(std::int64_t epoch, std::int64_t position) const {
  require(epoch >= 0, "[data] needs epoch >= 0, received {}", epoch);
  require(position >= 0 && position < size,
          "[data] needs 0 <= position < {}, received {}",
          size,
          position);
  if (!shuffled) return position;
  if (sampler) {
    require(sampler->size() == size,
            "[data] needs a sampler of {} samples, received a sampler of {}",
            size,
            sampler->size());
    return sampler->at(seed, epoch, position);
  }
  return permuted(position, size, seed, RandomPurpose::order, epoch);
}

Upcoming upcoming_of(const Order& order,
                     std::int64_t epoch,
                     std::int64_t position,
                     std::int64_t epochs,
                     std::uint64_t sequence) {
  return {
      .begin = epoch * order.size + position,
      .end = std::max(epoch + 1, epochs) * order.size,
      .period = order.size,
      .sequence = sequence,
      .index_at = [order](std::int64_t at) { return order.at(at / order.size, at % order.size); }};
}

}  // namespace dimred::data
