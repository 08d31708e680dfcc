#include "models/loss.h"

#include "support/errors.h"

namespace dimred::models {

torch::Tensor cross_entropy(const torch::Tensor& logits,
                            const torch::Tensor& labels,
                            const LossOptions& options) {
  const double s = options.label_smoothing;
  require(s >= 0 && s < 1, "[model] label_smoothing needs to be in [0, 1), received {}", s);
  const auto log_probabilities = torch::log_softmax(logits, 1, torch::kFloat32);
  auto target = -log_probabilities.gather(1, labels.unsqueeze(1)).squeeze(1);
  if (s == 0) return target;

  const double classes = logits.size(1);
  const bool pytorch = options.smoothing_form == SmoothingForm::pytorch;
  const double off = pytorch ? s / classes : s / (classes - 1);
  const double on = pytorch ? 1 - s + off : 1 - s;
  return (on - off) * target - off * log_probabilities.sum(1);
}

}  // namespace dimred::models
