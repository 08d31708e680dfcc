#pragma once

#include <cstdint>
#include <memory>

#include "distributed/communicator.h"
#include "engine/data_sets.h"
#include "engine/model.h"
#include "engine/stops.h"

namespace dimred::engine {

/// Everything that passes need, made from the options alone. Functions in need of one part take it
/// alone.
struct Setup {
  std::shared_ptr<distributed::TensorCommunicator> communicator;
  std::uint64_t seed = 0;
  Stops stops;
  DataSets data;
  Model model;
};

}  // namespace dimred::engine
