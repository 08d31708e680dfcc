#pragma once

#include <map>
#include <mutex>

#include "distributed/job_store.h"
#include "launch/rank_info.h"

namespace dimred::distributed {

/// The processes of the other ranks on this machine. A rank that gives no sign of life is ended
/// here: torchrun gives what a signal has stopped (SIGSTOP) 30 seconds to obey SIGTERM, and going
/// on later it would write into a run that another start has taken up.
class RankProcesses {
 public:
  RankProcesses() = default;
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Publishes this process's id through `store`, and reads those of the other ranks. All ranks
  /// call it. Needs Linux 5.3; before, it knows no other rank.
  void exchange_pids(c10d::Store& store, const launch::RankInfo& rank_info);

  /// SIGKILL to the process of `rank`, where it is on this machine and not this one. Safe from any
  /// thread. The process is held by a descriptor, so no other one of its number is ever meant.
  void end(int rank);

 private:
  std::mutex mutex_;
  std::map<int, int> descriptors_;  // rank -> pidfd
};

}  // namespace dimred::distributed
