#pragma once

#include "training/input/batches.h"
#include "training/setup.h"

namespace dimred::training {

/// The batches of `loader`. Where the setup's device is not the host, they are copied there on a
/// stream of their own.
std::unique_ptr<Batches> loaded_batches(const Setup& setup, std::unique_ptr<data::Loader> loader);

}  // namespace dimred::training
