#pragma once

#include <cstdint>
#include <memory>

#include "distributed/communicator.h"
#include "models/margin.h"
#include "models/objective.h"

namespace dimred::engine {

/// The margin softmax over `classes` as a network's head: weights [C, D], each rank with its own
/// rows (engine/heads/class_sharded_softmax.h), drawn from N(0, 2 / (D + C)), row by row from the
/// seed, so the same for any number of ranks. In train mode over a sample of the classes, where one
/// is asked for; in evaluation over all. The loss and the correct count of a batch are counted on
/// rank 0. Source of the draw: PLSC, models/dist_algo.py. Throws std::invalid_argument for fewer
/// classes than ranks.
std::shared_ptr<models::Head> margin_head(
    const models::HeadOptions& options,
    std::int64_t classes,
    std::uint64_t seed,
    const std::shared_ptr<distributed::TensorCommunicator>& communicator,
    torch::Device device);

}  // namespace dimred::engine
