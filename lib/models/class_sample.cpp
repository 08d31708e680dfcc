#include "models/class_sample.h"

#include <ATen/Parallel.h>

#include "support/ceiling.h"
#include "support/errors.h"
#include "support/random.h"

namespace dimred::models {

torch::Tensor sampled_classes(const ClassSampling& sampling,
                              std::int64_t classes,
                              std::int64_t begin,
                              std::int64_t count,
                              const torch::Tensor& labels) {
  require(sampling.ratio > 0 && sampling.ratio <= 1,
          "[margin_loss] class_sampling_ratio needs to be in (0, 1], received {}",
          sampling.ratio);
  const std::uint64_t drawn = ceil_fraction(sampling.ratio, classes);
  auto taken = torch::zeros({count}, torch::kBool);
  auto* const flags = taken.data_ptr<bool>();
  at::parallel_for(0, count, 4096, [&](std::int64_t first, std::int64_t last) {
    for (auto i = first; i < last; ++i)
      flags[i] =
          permuted(begin + i, classes, sampling.seed, RandomPurpose::classes, sampling.step) <
          drawn;
  });
  const auto own = labels.masked_select((labels >= 0) & (labels < count)).cpu();
  taken.index_fill_(0, own, true);
  return taken.nonzero().view({-1}).to(labels.device());
}

torch::Tensor positions_in(const torch::Tensor& sample, const torch::Tensor& labels) {
  if (sample.numel() == 0) return torch::full_like(labels, -1);
  const auto positions = torch::searchsorted(sample, labels).clamp_max(sample.numel() - 1);
  return torch::where(sample.index_select(0, positions) == labels, positions, -1);
}

}  // namespace dimred::models
