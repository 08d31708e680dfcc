#pragma once

#include "pca/basis.h"
#include "stage2/options.h"
#include "support/console.h"
#include "training/epoch.h"
#include "training/run_folder.h"
#include "training/weights.h"

namespace dimred::stage2 {

struct TrainOptions {
  std::int64_t epochs = 2;
  std::string method;  // the preset's name, for curve.csv
  StepOptions step;
  bool trial_batchnorm_moving = false;
  bool recalibrate_batchnorm = true;
  std::int64_t keep_checkpoints = 2;
};

/// Descends from `start` in the subspace of `basis`: resumes from the run folder's newest valid
/// state, else starts fresh with a curve row for epoch 0. One curve row an epoch, one row of
/// steps.csv a step, at the end a row `recalibrated` when the network has BatchNorm, and final.h5
/// with the last weights. Returns stopped when a signal ended it, with a state of the last step
/// saved.
training::EpochEnd train(training::Setup& setup,
                         const training::RunFolder& folder,
                         pca::Basis basis,
                         const training::Weights& start,
                         const TrainOptions& options,
                         Console& console);

}  // namespace dimred::stage2
