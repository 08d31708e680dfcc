#include "training/average.h"

#include <algorithm>

namespace dimred::training {

void move_towards(Average& average, const torch::Tensor& weights, double share) {
  const torch::NoGradGuard no_grad;
  if (average.count++ == 0) {
    average.values.copy_(weights);
  } else {
    average.values.lerp_(weights, share);
  }
}

double warmed_up_decay(double decay, std::int64_t update) {
  const auto n = static_cast<double>(update);
  return std::min(decay, (1 + n) / (10 + n));
}

}  // namespace dimred::training
