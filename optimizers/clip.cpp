#include "optimizers/clip.h"

namespace dimred::optimizers {

void centralize(torch::Tensor& gradient, const std::vector<Segment>& segments) {
  const torch::NoGradGuard no_grad;
  for (const auto& segment : segments) {
    if (!segment.decay || segment.rows < 2 || segment.size == segment.rows) continue;
    // An output channel is contiguous in memory, in channels_last, too.
    auto rows = gradient.narrow(0, segment.columns.begin, segment.size).view({segment.rows, -1});
    rows.sub_(rows.mean(/*dim=*/1, /*keepdim=*/true));
  }
}

torch::Tensor clip_to_norm(torch::Tensor& gradient, double most) {
  const torch::NoGradGuard no_grad;
  auto norm = torch::linalg_vector_norm(gradient, 2, std::nullopt, false, torch::kFloat64);
  gradient.mul_((most / norm).clamp_max_(1));  // exactly 1 below, also for |g| = 0
  return norm;
}

void prepare_gradient(torch::Tensor& gradient,
                      const std::vector<Segment>& segments,
                      const GradientOptions& options) {
  if (options.centralize) centralize(gradient, segments);
  if (options.max_gradient_norm) clip_to_norm(gradient, *options.max_gradient_norm);
}

}  // namespace dimred::optimizers
