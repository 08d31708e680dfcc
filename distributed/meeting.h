#pragma once

#include <stdexcept>
#include <string>

#include "distributed/job_store.h"

namespace dimred::distributed {

/// Another rank (rank 0, as a rule) has said it already.
class SaidByRank0 : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Rank 0 waits for all and tells them; the others wait for its word. Returns the start's name, the
/// same on every rank and of no other start. Throws std::runtime_error on rank 0 when ranks are
/// missing after `timeout` seconds or have refused, SaidByRank0 on the others.
std::string meet(c10d::Store& job, const launch::Place& place, double timeout);

/// Tells the rank that waits at the meeting that this one cannot come: rank 0, or on rank 0 all
/// others that come within `patience` seconds.
void stay_away(c10d::Store& job,
               const launch::Place& place,
               const std::string& reason,
               double patience);

}  // namespace dimred::distributed
