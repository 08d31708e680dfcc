#pragma once

#include <torch/types.h>

#include <cstdint>

#include "models/margin.h"

// Softmax cross-entropy over classes of which one rank need not hold all: a block of classes
// says what the others must know of it (a maximum and a sum for each sample), and all blocks
// together are the whole. engine/heads/class_sharded_softmax.h has a block a rank.
namespace dimred::models {

/// Rows of length 1, and what they were divided by. A row shorter than 1e-12 has no direction: it
/// becomes zeros and gets no gradient.
struct UnitRows {
  torch::Tensor rows;             // [n, D]
  torch::Tensor inverse_lengths;  // [n]; undefined: rows are as they were
};
UnitRows unit_rows(const torch::Tensor& rows, const Margin& margin);

/// The gradient by the rows themselves from that by the unit rows.
torch::Tensor unit_rows_backward(const UnitRows& unit, const torch::Tensor& gradient);

/// One block of classes against all samples of the global batch. Its one matrix, [N x classes],
/// becomes logits, exponentials and gradients in place; the unit weights are never made.
/// Call maxima, sums, gradients in this order.
class MarginBlock {
 public:
  /// features [N, D]: unit rows of all samples; labels [N] int64: of this block where they lie in
  /// [0, classes), of another elsewhere; weights [classes, D], classes >= 0, of the features' type
  /// (float32 or float64).
  MarginBlock(torch::Tensor features,
              const torch::Tensor& labels,
              torch::Tensor weights,
              const Margin& margin);

  /// [2, N] float64: the largest logit of the other classes, and the target's with its margin; -inf
  /// where the block has none. Their maximum over blocks is the whole's.
  torch::Tensor maxima() const;

  /// From those of the whole: [N + 1] float64, sums over the block of exp(z - m), and the number of
  /// samples of this block's classes whose cosine is the largest of all, margins left aside (equal
  /// ones count). Their sum over blocks is the whole's.
  torch::Tensor sums(const torch::Tensor& maxima);

  struct Gradients {
    torch::Tensor features;  // [N, D], this block's part of the sum: by the unit rows
    torch::Tensor weights;   // [classes, D]
  };
  /// Gradients of the mean loss over the N samples, from the sums of the whole.
  Gradients gradients(const torch::Tensor& sums);

 private:
  Margin margin_;
  torch::Tensor features_, weights_, inverse_lengths_;  // of the weights [classes]
  torch::Tensor matrix_;                                // [N, classes]
  torch::Tensor rows_, columns_;                        // where the targets of this block are
  torch::Tensor plain_;                                 // their cosines or logits without margin
  MarginValues target_;                                 // and with it
  torch::Tensor shift_;                                 // m [N]
};

/// The result of a batch.
struct MarginResult {
  double loss = 0;  // mean over all samples
  std::int64_t samples = 0;
  std::int64_t correct = 0;
  // Gradients of the mean loss; undefined where they were not asked for.
  torch::Tensor feature_gradient;  // [batch, D], by the features as given
  torch::Tensor weight_gradient;   // [classes, D]
};

/// Mean over samples of log sum exp z - z_target, in float64, from what all blocks have said.
double mean_loss(const torch::Tensor& maxima, const torch::Tensor& sums, torch::ScalarType type);

/// Why these cannot be a batch and its block of classes; empty when they can.
std::string batch_fault(const torch::Tensor& features,
                        const torch::Tensor& labels,
                        const torch::Tensor& weights,
                        std::int64_t classes);

}  // namespace dimred::models
