#pragma once

#include <functional>
#include <memory>

#include "stage1/train.h"
#include "training/hooks.h"

// Stage 1's own hooks; those of both stages are in training/builtin_hooks.h.
namespace dimred::stage1 {

using training::Hook;

/// Snapshots for the PCA: number i of n of an epoch after its step ceil(i * steps / n).
std::unique_ptr<Hook> make_snapshots(const SaveOptions& options, const training::RunFolder& folder);

/// Every log_loss_every_n_iters steps a line "step 20  loss 2.1  accuracy 20.31 %  rate 0.01  0.012
/// s/step  5300 samples/s", means over the steps since the line before; null when it is 0.
/// `learning_rate` is the next step's.
std::unique_ptr<Hook> make_step_log(const ControlOptions& options,
                                    std::function<double()> learning_rate);

/// Says once, after an epoch whose accuracy is what guessing reaches: with a test or validation
/// set of that, else of the epoch's own steps.
/// `learning_rate` is the option's, which the remedy names.
std::unique_ptr<Hook> make_chance_warning(double learning_rate);

/// Options::ema; null when its decay is 0.
std::unique_ptr<Hook> make_ema(const method::AverageOptions& options);

/// Keeps the best epoch's weights in best/ and ends a run that gets no better; null when neither is
/// wanted. Needs a validation set.
std::unique_ptr<Hook> make_early_stopping(const ControlOptions& options,
                                          const training::RunFolder& folder);

}  // namespace dimred::stage1
