#include "training/weights/average.h"

namespace dimred::training {

Average make_average(const method::AverageOptions& options, const torch::Tensor& like) {
  if (options.kind == method::AverageKind::none) return {};
  return {.values = torch::zeros_like(like.detach())};
}

void add(Average& average,
         const method::AverageOptions& options,
         const torch::Tensor& next,
         double progress) {
  const auto share = method::share_of_next(options, average.count, progress);
  if (!share) return;
  const torch::NoGradGuard no_grad;
  if (average.count++ == 0) {
    average.values.copy_(next);
  } else {
    average.values.lerp_(next, *share);
  }
}

}  // namespace dimred::training
