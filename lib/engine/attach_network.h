#pragma once

#include <cstdint>

#include "engine/setup.h"
#include "models/margin.h"
#include "models/objective.h"

namespace dimred::engine {

/// Gives a setup that has its images' shape, device, seed and communicator a network with weights
/// drawn from the seed, or a TorchScript module with its own, the head behind it if one is wanted
/// (its classes shared out over the ranks), and the flat vectors behind both.
/// Throws std::invalid_argument as make_network does, and for a module that cannot take images in
/// the options' memory format.
void attach_network(Setup& setup,
                    const ModelOptions& model,
                    const models::LossOptions& loss,
                    std::int64_t classes,
                    const models::HeadOptions& head = {});

/// From now on passes are recorded as CUDA graphs and replayed, where `wanted` and they can be: on
/// a CUDA device, of one rank, in one part and without a margin softmax, whose losses the host
/// sees.
void record_passes(Setup& setup, bool wanted);

}  // namespace dimred::engine
