#include "stage2/average.h"

namespace dimred::stage2 {

using method::AverageKind;
using method::AverageOptions;

Average make_average(const AverageOptions& options, const torch::Tensor& own_weights) {
  if (options.kind == AverageKind::none) return {};
  return {.values = torch::zeros_like(own_weights)};
}

void add(Average& average,
         const AverageOptions& options,
         const torch::Tensor& own_weights,
         double progress) {
  if (options.kind == AverageKind::none || progress < options.from) return;
  const double share = options.kind == AverageKind::uniform
                           ? 1.0 / static_cast<double>(average.count + 1)
                           : 1 - options.decay;
  training::move_towards(average, own_weights, share);
}

const char* name(AverageKind kind) { return kind == AverageKind::ema ? "ema" : "mean"; }

}  // namespace dimred::stage2
