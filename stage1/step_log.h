#pragma once

#include <functional>
#include <memory>

#include "run/hooks.h"
#include "stage1/control.h"

namespace dimred::stage1 {

/// Every log_loss_every_n_iters steps a line "step 20  loss 2.1  accuracy 20.31 %  rate 0.01  0.012
/// s/step  5300 samples/s", means over the steps since the line before; null when it is 0.
/// `learning_rate` is the next step's.
std::unique_ptr<run::Hook> make_step_log(const ControlOptions& options,
                                         std::function<double()> learning_rate);

}  // namespace dimred::stage1
