#pragma once

#include "stage2/step.h"
#include "training/epoch.h"

namespace dimred::stage2 {

/// What a batch has cost, counted in passes over it.
struct Passes {
  std::int64_t forward = 0, backward = 0;
};

/// A step's batch as a method sees it: loss and gradient computed, penalties added, running
/// statistics of trials put back. The functions in it refer to all arguments.
struct PreparedBatch {
  training::PendingResult result;  // of the batch itself, without penalties
  BatchLoss loss;
};
PreparedBatch prepare(training::Setup& setup,
                      const training::Step& now,
                      const PenaltyOptions& penalty,
                      bool trial_batchnorm_moving,
                      Passes& passes);

}  // namespace dimred::stage2
