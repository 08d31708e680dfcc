#pragma once

#include <cstdint>
#include <functional>

#include "engine/passes/gradient.h"

namespace dimred::engine {

/// One batch of the loop: the tensors, and where it stands.
struct Step {
  models::Minibatch batch;
  std::int64_t global_count = 0;
  ForwardKey key;
  /// To be called once the device is at work on the batch, before anything is waited for: it
  /// prepares the next batch. May be empty.
  std::function<void()> prefetch_next = {};
};

}  // namespace dimred::engine
