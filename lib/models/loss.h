#pragma once

#include <torch/types.h>

namespace dimred::models {

/// Two published forms of label smoothing s over C classes; they differ (docs/reference/data.md).
enum class SmoothingForm {
  pytorch,    // target 1 - s + s/C, others s/C
  mindspore,  // target 1 - s, others s/(C-1): CrossEntropySmooth of MindSpore's model zoo
};

struct LossOptions {
  double label_smoothing = 0;  // s, [0, 1)
  SmoothingForm smoothing_form = SmoothingForm::pytorch;
};

/// Cross-entropy of each sample, - sum_c target_c log softmax(logits)_c.
/// logits [batch, C] float, labels [batch] int64 in [0, C); returns [batch] float32.
/// Throws std::invalid_argument unless 0 <= label_smoothing < 1.
torch::Tensor cross_entropy(const torch::Tensor& logits,
                            const torch::Tensor& labels,
                            const LossOptions& options);

}  // namespace dimred::models
