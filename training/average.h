#pragma once

#include <torch/types.h>

#include <cstdint>

namespace dimred::training {

/// A running mean of weights; part of a resume state.
struct Average {
  torch::Tensor values;    // undefined without one
  std::int64_t count = 0;  // of the weights in it
};

/// a <- a + share (w - a); the first w is taken as it is. Cost: one pass.
void move_towards(Average& average, const torch::Tensor& weights, double share);

/// min(decay, (1 + n) / (10 + n)) of update n >= 1: an exponential mean that forgets its beginning
/// faster while it is young. Source: TensorFlow's ExponentialMovingAverage with num_updates = n.
double warmed_up_decay(double decay, std::int64_t update);

}  // namespace dimred::training
