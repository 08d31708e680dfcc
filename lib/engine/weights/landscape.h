#pragma once

#include <functional>
#include <vector>

#include "engine/evaluate.h"

// The loss in a plane of weight space: w(a, b) = center + a first + b second.
namespace dimred::engine {

/// `first` and `second` are orthonormal, so that a and b are lengths. All in memory order.
struct Plane {
  torch::Tensor center, first, second;  // [memory_size]
  torch::Tensor buffers, counters;      // of the network at the center
};

/// The setup's present weights as the center of a plane.
Plane plane_through(const Model& model, torch::Tensor first, torch::Tensor second);

/// Place of weights relative to a plane.
struct Coordinates {
  double a = 0, b = 0;  // of their orthogonal projection into it: first'(w - center), second'(...)
  double distance = 0;  // |w - w(a, b)|
};
Coordinates coordinates(const Plane& plane, const torch::Tensor& weights);

/// BatchNorm's running statistics belong to the weights they were measured with. Estimated again,
/// the surface is that of a network evaluated as training would leave it there; kept, the center's
/// statistics turn the surface into another function, which rises steeply away from the center.
struct Recalibration {
  bool recalibrate = true;             // no effect without BatchNorm
  std::int64_t batchnorm_batches = 8;  // >= 1, of the training set, the same for every point
};

/// Loss and accuracy of the setup's present weights over `dataset`, in evaluation mode.
Score score_here(Setup& setup, const data::Dataset& dataset, const Recalibration& options);

/// Evaluates at w(a, b), with the center's buffers, and leaves the network there.
Score score_in_plane(Setup& setup,
                     const Plane& plane,
                     double a,
                     double b,
                     const data::Dataset& dataset,
                     const Recalibration& options);

/// Points of an axis, evenly spread from low to high, both included.
struct Axis {
  double low = 0, high = 0;
  std::int64_t points = 1;
  double at(std::int64_t index) const;
};

/// From the smallest to the largest of `values` and 0 (the center), and on each side `margin` times
/// that distance more. Low and high are 0 when all values are.
Axis axis_around(const std::vector<double>& values, double margin, std::int64_t points);

/// `count` of [0, size) drawn without replacement by seed, ascending: all when count is 0 or more
/// than there are. Larger counts contain the smaller sets.
std::vector<std::int64_t> drawn_indices(std::int64_t size, std::int64_t count, std::uint64_t seed);

/// The results of `work` for each of `count` items, every rank doing its R-th share of them: [count
/// x width] numbers on every rank. After each round of R items `done` is told how many are.
std::vector<double> shared_among(Communicator& communicator,
                                 std::int64_t count,
                                 std::int64_t width,
                                 const std::function<std::vector<double>(std::int64_t)>& work,
                                 const std::function<void(std::int64_t)>& done);

}  // namespace dimred::engine
