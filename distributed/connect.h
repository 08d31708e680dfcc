#pragma once

#include <functional>
#include <memory>
#include <string>

#include "distributed/communicator.h"
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

/// One rank, whatever the environment says.
Ranks alone();

/// Rank 0 has said it already.
class SaidByRank0 : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Tells rank 0, where it waits for this rank to come, that it cannot.
void refuse(const launch::Place& place, const std::string& reason);

/// Meets the other ranks. `on_failure` is called from another thread, once, when a rank has died,
/// stopped or reported a failure. Throws std::runtime_error when the port is in use or ranks are
/// missing after rendezvous_timeout (names them).
Ranks connect(const launch::Place& place,
              const launch::ConnectOptions& options,
              bool on_gpu,
              const std::function<void(const Failure&)>& on_failure);

}  // namespace dimred::distributed
