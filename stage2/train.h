#pragma once

#include <optional>

#include "method/presets.h"
#include "run/epoch.h"
#include "run/hook_options.h"
#include "run/weights/weights.h"
#include "stage2/subspace.h"
#include "support/console.h"

namespace dimred::stage2 {

struct TrainOptions {
  std::string label;        // of curve.csv: the preset's name, or that of another method
  std::int64_t epochs = 2;  // 0: only the start is evaluated
  double budget = 0;        // > 0: ends when it is spent, instead of epochs
  method::MethodOptions method;
  method::PenaltyOptions penalty;
  method::AverageOptions average;
  bool trial_batchnorm_moving = false;
  bool recalibrate_batchnorm = true;
  std::int64_t keep_checkpoints = 2;
  std::optional<double> stage1_rate;  // at the end of the run it starts from; unset: not known
  run::HookOptions hooks;
};

/// The cost of training in epochs of plain SGD: (forward + 2 backward passes) / (3 steps of an
/// epoch); a line search's trial is one forward pass.
double epochs_spent(const run::Totals& totals, std::int64_t steps_per_epoch);

/// The weights of epoch 0, and what making them has cost.
struct StartWeights {
  run::Weights weights;
  run::Totals cost;
};

/// Descends by the method, as run::train(). A run with a state needs no `start`; else the
/// curve begins with a row of epoch 0, whose costs are the start's. One row of steps.csv a step; at
/// the end a row `recalibrated` when the network has BatchNorm, one of the average (`mean`, `ema`)
/// where there is one, start.h5 and final.h5 with the weights of the first and the last row. It
/// warns of harm: a last row below the first, a loss that rose, searches that all failed, few
/// steps.
run::EpochEnd train(engine::Setup& setup,
                    const run::RunFolder& folder,
                    Subspace subspace,
                    std::optional<StartWeights> start,
                    const TrainOptions& options,
                    Console& console);

}  // namespace dimred::stage2
