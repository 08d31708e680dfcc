#pragma once

#include <torch/types.h>

#include "engine/setup.h"

// The confidence of a classifier, the probability of its first class, against its accuracy.
namespace dimred::engine {

/// A network's outputs for this rank's samples of a set.
struct Predictions {
  torch::Tensor logits;  // [n, C] float32, on the processor
  torch::Tensor labels;  // [n] int64
};

/// In evaluation mode, in order, without augmentation. Cost: a forward pass over the set. Memory:
/// 4 n C bytes. Throws
/// std::invalid_argument for a network with a head, whose outputs are no logits, and otherwise as
/// evaluate() does.
Predictions predictions(Setup& setup, const data::Dataset& dataset);

/// The ends of best_temperature()'s search.
inline constexpr double lowest_temperature = 0.01;
inline constexpr double highest_temperature = 100;

/// The temperature in [lowest_temperature, highest_temperature] with the lowest mean cross-entropy
/// of softmax(logits / temperature) over all ranks' samples. The cross-entropy is convex in 1 /
/// temperature; its derivative is bisected, in 50 passes over the logits. Throws
/// std::runtime_error, on every rank, for a logit that is not finite.
///
/// Source: Guo et al. 2017, "On calibration of modern neural networks", section 4.2.
double best_temperature(const Predictions& found, Communicator& communicator);

struct Calibration {
  double loss = 0;   // mean cross-entropy of softmax(logits / temperature)
  double error = 0;  // expected calibration error, 15 bins of equal width, [0, 1]
};

/// Over all ranks' samples. Source: as above, equation 3.
Calibration calibration(const Predictions& found, double temperature, Communicator& communicator);

}  // namespace dimred::engine
