#pragma once

#include <stdexcept>
#include <string>

#include "distributed/job_store.h"

namespace dimred::distributed {

/// Another rank (rank 0, as a rule) has reported the error already.
class ReportedByRank0 : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The rendezvous of all ranks: rank 0 waits for all and publishes the outcome, for which the
/// others wait. Returns the start's name, the same on every rank and of no other start. Throws
/// std::runtime_error on rank 0 when ranks are missing after `timeout` seconds or have declined,
/// ReportedByRank0 on the others.
std::string rendezvous(c10d::Store& job, const launch::RankInfo& rank_info, double timeout);

/// Reports at the rendezvous this rank's failure to start: to rank 0, or on rank 0 to all others
/// that come within `patience` seconds.
void decline_rendezvous(c10d::Store& job,
                        const launch::RankInfo& rank_info,
                        const std::string& reason,
                        double patience);

}  // namespace dimred::distributed
