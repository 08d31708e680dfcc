#pragma once

#include "training/curve.h"
#include "training/setup.h"

namespace dimred::training {

struct Score {
  double loss = 0;      // mean over samples
  double accuracy = 0;  // part of samples classified right, [0, 1]
  std::int64_t samples = 0;
};

/// Evaluation mode over a whole dataset, in order, without augmentation, summed over ranks.
Score evaluate(Setup& setup, const data::Dataset& dataset);

/// Scores of the present weights on the validation set, where there is one, and the test set.
void add_scores(Setup& setup, CurveRow& row);

/// Estimates BatchNorm's running statistics for the present weights: one pass over the training set
/// in train mode without gradients; cumulative means, as torch.optim.swa_utils.update_bn. With
/// `batches_wanted` > 0, over the first so many batches of that pass only. No effect without
/// BatchNorm layers. Cost: one forward pass over the training set, or over those batches.
void recalibrate_batchnorm(Setup& setup, std::int64_t batches_wanted = 0);

}  // namespace dimred::training
