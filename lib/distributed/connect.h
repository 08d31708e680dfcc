#pragma once

#include <functional>
#include <memory>
#include <string>

#include "distributed/communicator.h"
#include "distributed/heartbeat_monitor.h"
#include "distributed/rendezvous.h"
#include "launch/options.h"
#include "launch/rank_info.h"

namespace dimred::distributed {

/// This process among its ranks: the communicator, and the monitor of the others.
struct Ranks {
  launch::RankInfo rank_info;
  std::shared_ptr<TensorCommunicator> communicator;
  std::unique_ptr<HeartbeatMonitor> monitor;  // null with one rank

  /// All ranks are done: leaves in an order in which nobody misses anybody.
  void leave();
};

/// A single process: every collective is a no-op.
Ranks single_process(const launch::RankInfo& rank_info = {});

/// Reports to rank 0, where it waits for this rank, that it cannot start; rank 0 reports to all
/// that wait for it. Takes up to three seconds; false when no rank was there to receive it.
bool decline(const launch::RankInfo& rank_info, const std::string& reason);

/// The rendezvous with the other ranks. `on_failure` is called from another thread, once, when a
/// rank has died, stopped or reported a failure. Throws std::runtime_error when the port is in use
/// or ranks are missing after rendezvous_timeout (names them).
Ranks connect(const launch::RankInfo& rank_info,
              const launch::ConnectOptions& options,
              bool on_gpu,
              const std::function<void(const Failure&)>& on_failure);

/// A note in the store of torchrun's agent, which lives as long as the torchrun command: a signal
/// has stopped the ranks, and a restart of them must end at once. Without an agent: nothing, false.
void mark_stopped(const launch::RankInfo& rank_info);
bool was_stopped(const launch::RankInfo& rank_info);

}  // namespace dimred::distributed
