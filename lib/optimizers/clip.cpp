#include "optimizers/clip.h"

#include <algorithm>

#include "support/errors.h"

namespace dimred::optimizers {
namespace {

torch::Tensor norm_of(const torch::Tensor& vector) {
  return torch::linalg_vector_norm(vector, 2, std::nullopt, false, torch::kFloat64);
}

/// The norm of the columns that all ranks have alike and of every rank's own columns behind them.
torch::Tensor norm_over_ranks(const torch::Tensor& vector,
                              const std::vector<Segment>& segments,
                              const SumOverRanks& sum_over_ranks) {
  const auto first = std::ranges::find_if(segments, &Segment::sharded);
  if (first == segments.end()) return norm_of(vector);
  check(sum_over_ranks != nullptr, "sharded segments come with a sum over ranks");
  const auto replicated = first->columns.begin;
  auto square = norm_of(vector.narrow(0, replicated, vector.numel() - replicated)).square();
  sum_over_ranks(square);
  return (norm_of(vector.narrow(0, 0, replicated)).square() + square).sqrt();
}

}  // namespace

void centralize(torch::Tensor& gradient, const std::vector<Segment>& segments) {
  const torch::NoGradGuard no_grad;
  for (const auto& segment : segments) {
    if (!segment.decay || segment.rows < 2 || segment.size == segment.rows) continue;
    // An output channel is contiguous in memory, in channels_last, too.
    auto rows = gradient.narrow(0, segment.columns.begin, segment.size).view({segment.rows, -1});
    rows.sub_(rows.mean(/*dim=*/1, /*keepdim=*/true));
  }
}

torch::Tensor clip_to_norm(torch::Tensor& gradient,
                           const std::vector<Segment>& segments,
                           double most,
                           const SumOverRanks& sum_over_ranks) {
  const torch::NoGradGuard no_grad;
  auto norm = norm_over_ranks(gradient, segments, sum_over_ranks);
  gradient.mul_((most / norm).clamp_max_(1));  // exactly 1 below, also for |g| = 0
  return norm;
}

void prepare_gradient(torch::Tensor& gradient,
                      const std::vector<Segment>& segments,
                      const GradientOptions& options,
                      const SumOverRanks& sum_over_ranks) {
  if (options.centralize) centralize(gradient, segments);
  if (options.max_gradient_norm)
    clip_to_norm(gradient, segments, *options.max_gradient_norm, sum_over_ranks);
}

}  // namespace dimred::optimizers
