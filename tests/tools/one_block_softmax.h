#pragma once

#include "models/margin_softmax.h"
#include "support/errors.h"

namespace dimred::models {

/// All classes as one block: features [N, D], labels [N] int64 in [0, C), weights [C, D], N >= 1.
/// Throws std::invalid_argument for shapes, types and labels that do not fit.
inline MarginResult margin_softmax(const torch::Tensor& features,
                                   const torch::Tensor& labels,
                                   const torch::Tensor& weights,
                                   const Margin& margin,
                                   bool with_gradients = true) {
  const torch::NoGradGuard no_grad;
  const auto fault =
      batch_fault(features, labels, weights, weights.dim() == 2 ? weights.size(0) : 0);
  require(fault.empty(), "[margin_loss] {}", fault);
  require(features.size(0) >= 1, "[margin_loss] needs at least one sample");
  const auto unit = unit_rows(features, margin);
  MarginBlock block(unit.rows, labels, weights, margin);
  const auto maxima = block.maxima();
  const auto sums = block.sums(maxima);
  MarginResult result{.loss = mean_loss(maxima, sums, features.scalar_type()),
                      .samples = features.size(0),
                      .correct = sums[features.size(0)].to(torch::kInt64).item<std::int64_t>()};
  if (!with_gradients) return result;
  auto gradients = block.gradients(sums);
  result.feature_gradient = unit_rows_backward(unit, gradients.features);
  result.weight_gradient = std::move(gradients.weights);
  return result;
}

}  // namespace dimred::models
