#include "optimizers/sgd.h"

#include "support/errors.h"

namespace dimred::optimizers {

void validate(const SgdOptions& options) {
  constexpr auto place = "optimizers::sgd";
  require(options.momentum >= 0 && options.momentum < 1,
          place,
          "momentum needs [0, 1), received ",
          options.momentum);
  require(
      options.weight_decay >= 0, place, "weight_decay needs >= 0, received ", options.weight_decay);
  require(
      !options.nesterov || options.momentum > 0, place, "nesterov needs momentum > 0, received 0");
}

std::vector<DecayRange> decay_ranges(const layout::Layout& layout) {
  std::vector<DecayRange> ranges;
  for (std::size_t i = 0; i < layout.entries.size(); ++i) {
    const auto& entry = layout.entries[i];
    // Padding between segments joins the segment before it; its weights and gradients are zero.
    const auto end =
        i + 1 < layout.entries.size() ? layout.entries[i + 1].memory_offset : layout.memory_size;
    if (!ranges.empty() && ranges.back().decay == entry.decay) {
      ranges.back().columns.end = end;
    } else {
      ranges.push_back({{entry.memory_offset, end}, entry.decay});
    }
  }
  return ranges;
}

void sgd_step(torch::Tensor& weights,
              const torch::Tensor& gradient,
              torch::Tensor& momentum,
              const std::vector<DecayRange>& ranges,
              double learning_rate,
              const SgdOptions& options) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> w[2], g[2], m[2];
  for (const auto& range : ranges) {
    const auto [begin, size] = std::pair{range.columns.begin, range.columns.size()};
    w[range.decay].push_back(weights.narrow(0, begin, size));
    g[range.decay].push_back(gradient.narrow(0, begin, size));
    if (options.momentum > 0) m[range.decay].push_back(momentum.narrow(0, begin, size));
  }
  for (const int decay : {0, 1}) {
    if (w[decay].empty()) continue;
    // is_first_step = false throughout: momentum starts at zero, so m = momentum * 0 + g is the
    // same.
    at::_fused_sgd_(w[decay],
                    g[decay],
                    m[decay],
                    decay == 1 ? options.weight_decay : 0.0,
                    options.momentum,
                    learning_rate,
                    /*dampening=*/0,
                    options.nesterov,
                    /*maximize=*/false,
                    /*is_first_step=*/false);
  }
}

}  // namespace dimred::optimizers
