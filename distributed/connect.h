#pragma once

#include <functional>
#include <memory>
#include <string>

#include "distributed/communicator.h"
#include "distributed/meeting.h"
#include "distributed/watch.h"
#include "launch/options.h"
#include "launch/place.h"

namespace dimred::distributed {

/// This process among its ranks: the communicator, and the watch over the others.
struct Ranks {
  launch::Place place;
  std::shared_ptr<Communicator> communicator;
  std::unique_ptr<Watch> watch;  // null with one rank

  /// All ranks are done: leaves in an order in which nobody misses anybody.
  void leave();
};

/// One rank: every collective is a no-op.
Ranks alone(const launch::Place& place = {});

/// Tells rank 0, where it waits for this rank to come, that it cannot; rank 0 tells all that wait
/// for it. Takes up to three seconds; false when nobody was there to hear it.
bool refuse(const launch::Place& place, const std::string& reason);

/// Meets the other ranks. `on_failure` is called from another thread, once, when a rank has died,
/// stopped or reported a failure. Throws std::runtime_error when the port is in use or ranks are
/// missing after rendezvous_timeout (names them).
Ranks connect(const launch::Place& place,
              const launch::ConnectOptions& options,
              bool on_gpu,
              const std::function<void(const Failure&)>& on_failure);

/// A note in the store of torchrun's agent, which lives as long as the torchrun command: a signal
/// has stopped the ranks, and a restart of them must end at once. Without an agent: nothing, false.
void mark_stopped(const launch::Place& place);
bool was_stopped(const launch::Place& place);

}  // namespace dimred::distributed
