#pragma once

#include <exception>
#include <functional>

#include "support/communicator.h"

namespace dimred::engine {

/// Requests to stop, which a pass asks for between two batches. A function may be empty: nothing
/// stops the pass then.
struct Stops {
  std::function<bool()> received;  // true when this rank has received a request to stop
  /// True on every rank when any has received one: asked at the same step by all.
  std::function<bool(Communicator&)> agreed;
};

/// The exception that a pass without steps (an evaluation, a recalibration) throws on every rank
/// when a request to any of them stops it between two batches.
struct Stopped final : std::exception {
  const char* what() const noexcept override { return "stopped by a signal"; }
};

}  // namespace dimred::engine
