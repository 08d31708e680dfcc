#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

// The weights of checkpoints in a merge, oldest first; they sum to one.
namespace dimred::merge {

/// mean: 1/n. linear, cosine, minus_sqrt: what a learning rate that decays from 1 to 0 as f(x) over
/// the checkpoints would have given their updates, c_i = f(x_i) - f(x_{i+1}) with x_i = (t_i - t_0)
/// / (t_{n-1} - t_0 + mean distance) of the steps t and x_n = 1; f is 1 - x, (1 + cos pi x) / 2,
/// 1 - sqrt x (WSM, arXiv 2507.17634, theorem 3.1). wma: 2 i / (n (n + 1)), i from 1. ema:
/// decay^age, normalised. pma_ema: m = alpha w + (1 - alpha) m from the oldest on (PMA, arXiv
/// 2505.12082). power: t^gamma of the step t, normalised. It resembles the power function average
/// of Karras et al. (arXiv 2312.02696), but is no solve for their profile from stored averages.
enum class Kind { mean, linear, cosine, minus_sqrt, wma, ema, pma_ema, power };

const std::vector<std::pair<std::string, Kind>>& kind_names();

struct CoefficientOptions {
  Kind kind = Kind::mean;
  double decay = 0.9;  // of ema, in (0, 1)
  double alpha = 0.2;  // of pma_ema, in (0, 1]
  double gamma = 1;    // of power, >= 0
};

/// Checkpoint i counts weights[i] / divisor. A sum is divided once, at its end: that of a mean has
/// exact products.
struct Coefficients {
  std::vector<double> weights;
  double divisor = 1;

  std::vector<double> values() const;  // weights / divisor, which sum to one
};

/// One weight for each step. Throws std::invalid_argument where a decay's steps do not ascend, and
/// for a power of steps that are negative or all zero.
Coefficients coefficients_of(std::span<const std::int64_t> steps,
                             const CoefficientOptions& options);

}  // namespace dimred::merge
