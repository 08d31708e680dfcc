#pragma once

#include <torch/types.h>

#include <span>

#include "stage2/place.h"

namespace dimred::stage2 {

/// The line w + t u that a step searches, with the weights at one of its points.
class Line {
 public:
  /// The weights are at t = 0; a copy of them is kept.
  Line(const torch::Tensor& weights, torch::Tensor direction)
      : Line(weights, std::move(direction), weights.clone(), 0) {}
  /// They are at `t` already; `start` is w.
  Line(torch::Tensor weights, torch::Tensor direction, torch::Tensor start, double t)
      : weights_(std::move(weights)),
        direction_(std::move(direction)),
        start_(std::move(start)),
        t_(t) {}

  /// Moves the weights to w + t u; t = 0 is w, bit for bit. Where they are already, nothing is
  /// done.
  void move_to(double t);

 private:
  torch::Tensor weights_, direction_, start_;
  double t_;
};

/// The line along u = P'd - alpha m of all columns, m moved before. ONE read of P; on the device of
/// a single rank one of g, m and w, too, in the same pass, which leaves the weights at the line's
/// first trial, t = 1.
Line descent_line(const Place& place,
                  const InsideStep& inside,
                  const OutsideStep& outside,
                  const torch::Tensor& weights);

}  // namespace dimred::stage2
