#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "checkpoints/runs.h"
#include "distributed/communicator.h"
#include "training/data_sets.h"
#include "training/model.h"

namespace dimred::training {

/// Everything a stage trains with, made from the options alone. Functions in need of one part take
/// it alone.
struct Setup {
  std::shared_ptr<distributed::TensorCommunicator> communicator;
  std::uint64_t seed = 0;
  std::string
      persistent_options;  // checkpoints::persistent_options of this run; empty in tests without
  checkpoints::RunIdentity run;  // which states and snapshots carry; a resumed run keeps it
  DataSets data;
  Model model;
};

}  // namespace dimred::training
