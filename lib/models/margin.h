#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>

#include "options/options.h"

namespace dimred::models {

/// Named margins of the target's angle; `combined` is the general form.
/// `none`: no head; the network's own last layer and cross-entropy.
enum class MarginKind { none, softmax, arcface, cosface, combined };

/// The treatment of a target whose angle is so large that m1 theta + m2 > pi, where the cosine
/// rises again.
enum class BeyondPi {
  automatic,  // linear where m1 = 1, else cosine
  linear,     // cos theta - m2 sin m2, which keeps falling: insightface's ArcFace; m1 = 1 only
  cosine,     // cos(m1 theta + m2) all the same: PLSC
};

struct MarginOptions {
  MarginKind kind = MarginKind::arcface;
  std::optional<double> scale;  // s in (0, 300]; unset: 64; softmax has none
  std::optional<double> m1;     // [1, 4]; unset: 1
  std::optional<double> m2;     // [0, pi); unset: arcface and combined 0.5, else 0
  std::optional<double> m3;     // [0, 2); unset: cosface 0.35, else 0
  BeyondPi beyond = BeyondPi::automatic;
};

/// A last layer over many classes.
struct HeadOptions {
  MarginOptions margin{.kind = MarginKind::none};
  std::int64_t embedding_size = 512;  // D >= 1
  double sampling_ratio = 1;  // (0, 1]: of the classes, at each step (models/class_sample.h)
};

/// z_c = s cos theta_c for every class but the sample's own; its is s (cos(m1 theta + m2) - m3).
/// Without normalisation z = x w', for the plain softmax.
/// Sources: Deng et al., "ArcFace", CVPR 2019, equation 4; PLSC's models/dist_algo.py.
struct Margin {
  bool normalized = true;
  double scale = 64, m1 = 1, m2 = 0.5, m3 = 0;
  BeyondPi beyond = BeyondPi::linear;
};

/// The numbers meant, without those of other kinds. Throws std::invalid_argument("[margin_loss]
/// rule, received ...") for a number out of its range, and for linear with m1 != 1.
Margin resolved(const MarginOptions& options);

/// The rows of the group "Head".
void add_options(OptionTable& table, HeadOptions& options);

/// For the targets' cosines [n] float64 in [-1, 1]: cos(m1 theta + m2) - m3, and its derivative by
/// cos theta, in which sin theta counts as at least `least_sine`: at the ends of [-1, 1] the
/// derivative is infinite, its product with the length of d cos / d x, sin theta, is not.
struct MarginValues {
  torch::Tensor value, derivative;
};
MarginValues with_margin(const torch::Tensor& cosines, const Margin& margin, double least_sine);

}  // namespace dimred::models
