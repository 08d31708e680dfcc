#pragma once

#include "training/setup.h"

namespace dimred::training {

/// Opens the data sets, keeps small images decoded in memory, cuts, adds label noise, splits, and
/// settles how images are prepared (mean and deviation of the training set unless a preset says
/// them). `threads` is this rank's share of the cores. Reads setup.seed. Throws
/// std::invalid_argument for options that contradict the data, std::runtime_error for damaged
/// files.
void load_data(Setup& setup,
               const DataOptions& options,
               const RunOptions& run,
               std::int64_t threads);

}  // namespace dimred::training
