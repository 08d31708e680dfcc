#pragma once

#include <string>

#include "checkpoints/runs.h"

namespace dimred::run {

/// The part of states and snapshots that says which run wrote them.
struct RunRecord {
  std::string config;            // checkpoints::RunConfig::persistent; empty in tests without
  checkpoints::RunIdentity run;  // a resumed run keeps it
};

}  // namespace dimred::run
