#pragma once

#include "training/batches.h"
#include "training/setup.h"

namespace dimred::training {

/// Batches of a data::Loader. Where the setup's device is not the host, they are copied there on a
/// stream of their own.
std::unique_ptr<Batches> loaded_batches(const Setup& setup,
                                        const data::Dataset& dataset,
                                        const data::Order& order,
                                        const data::Preprocessing& preprocessing,
                                        const data::LoaderOptions& options,
                                        std::int64_t epoch,
                                        std::int64_t first_step);

}  // namespace dimred::training
