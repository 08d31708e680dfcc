#pragma once

#include <string>
#include <vector>

#include "engine/setup.h"
#include "optimizers/optimizer.h"
#include "support/console.h"

// Which learning rates a network learns by: the range test of Smith, "Cyclical Learning Rates for
// Training Neural Networks" (arXiv 1506.01186), as fastai's lr_find does it.
namespace dimred::stage1 {

/// Step i of n is made at rate start (end / start)^(i / (n - 1)).
struct FinderOptions {
  double start_rate = 1e-7;  // > 0
  double end_rate = 10;      // > start_rate
  std::int64_t steps = 100;  // >= 20
};

/// Throws std::invalid_argument for a value out of range.
void validate(const FinderOptions& options);

struct FinderPoint {
  double learning_rate = 0;
  double loss = 0;      // of the batch, before its step
  double smoothed = 0;  // sum of 0.98^j loss_(i-j) over the sum of 0.98^j
};

/// Learning rates read off the points without the first tenth of the steps and the last five.
struct Suggestion {
  double steepest = 0;  // the rate behind which the smoothed loss falls most by log(rate)
  double minimum = 0;   // the rate of the smallest smoothed loss
  double tenth() const { return minimum / 10; }
};

/// Throws std::runtime_error when fewer than two points are left: the loss grew at once.
Suggestion suggest(const std::vector<FinderPoint>& points, std::int64_t steps);

/// The sweep's points up to its end, or to where the smoothed loss is more than 4 times its
/// smallest so far, or the loss is not finite. The batches are the first ones of a run of the same
/// seed. The network is trained by it. Called by all ranks, equal on all.
std::vector<FinderPoint> sweep(engine::Setup& setup,
                               const FinderOptions& options,
                               const optimizers::OptimizerOptions& optimizer,
                               Console& console);

/// "step,learning_rate,loss,smoothed_loss", a line a point.
std::string to_csv(const std::vector<FinderPoint>& points);

}  // namespace dimred::stage1
