#pragma once

#include "training/setup.h"

namespace dimred::soup {

/// The mean loss of a data set as a function of the network's weights: the same samples in the same
/// batches at every call. A network with BatchNorm is in training mode, over shuffled samples: it
/// takes the statistics of each batch, as the running ones belong to other weights, and the loss is
/// that of training (dropout; smoothing where the setup has one). Any other is in evaluation mode.
class HeldOutLoss {
 public:
  /// Both must outlive it. Throws std::invalid_argument where a stream's cache has no room for all
  /// samples and the network has BatchNorm.
  HeldOutLoss(training::Setup& setup, const data::Dataset& samples);

  /// At the present weights: one forward pass over the samples.
  double loss();
  /// With its gradient [memory_size] in `sum`: one pass forward and backward; the network's own
  /// gradient is overwritten.
  double gradient(torch::Tensor sum);

  /// Images that have passed the network, forward and backward, up to now.
  std::int64_t forward_images() const { return forward_images_; }
  std::int64_t backward_images() const { return backward_images_; }

 private:
  template <class Pass>
  double over_batches(const Pass& pass);

  training::Setup& setup_;
  const data::Dataset& samples_;
  std::int64_t forward_images_ = 0, backward_images_ = 0;
};

}  // namespace dimred::soup
