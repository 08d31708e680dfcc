#pragma once

#include "optimizers/optimizer.h"
#include "support/options.h"

namespace dimred::optimizers {

/// The rows of the group "Optimizer".
void add_options(OptionTable& table, OptimizerOptions& options);

}  // namespace dimred::optimizers
