#pragma once

#include "distributed/connect.h"
#include "engine/setup.h"
#include "run/options.h"

namespace dimred::run {

/// Sets torch's threads (the machine's cores shared by its ranks), loads the data, builds the
/// network with weights drawn from the seed. Options must be resolved. Throws std::invalid_argument
/// for options that contradict each other or the data, a missing device, bfloat16 where it is not
/// native ("auto" falls back) and float16 without CUDA, and on every rank when they disagree in
/// data or layout. Fills in how images are prepared, where the options leave that to the data.
engine::Setup make_setup(CommonOptions& options, const distributed::Ranks& ranks);

}  // namespace dimred::run
