#pragma once

#include <cstdint>
#include <memory>

#include "data/stream_plan.h"

namespace dimred::data {

/// Another shuffled order than one permutation of everything: a pure function of (seed, epoch,
/// position), a bijection of [0, size) in every epoch, safe from several threads.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual std::int64_t size() const = 0;
  /// 0 <= position < size() and epoch >= 0 hold.
  virtual std::int64_t at(std::uint64_t seed, std::int64_t epoch, std::int64_t position) const = 0;
};

/// Which sample stands at a position of an epoch: a pure function of (seed, epoch, position), the
/// same for any number of ranks, threads or restarts. `shuffled` false: position itself.
struct Order {
  std::uint64_t seed = 0;
  std::int64_t size = 0;
  bool shuffled = true;
  std::shared_ptr<const Sampler> sampler = nullptr;  // nullptr: one permutation of all
  /// Index in [0, size). Throws std::invalid_argument unless 0 <= position < size and epoch >= 0,
  /// or when the sampler is of another size.
  std::int64_t at(std::int64_t epoch, std::int64_t position) const;
};

/// The reads from a position of an epoch on, to the end of the last of `epochs` or of this one.
Upcoming upcoming_of(const Order& order,
                     std::int64_t epoch,
                     std::int64_t position,
                     std::int64_t epochs,
                     std::uint64_t sequence);

}  // namespace dimred::data
