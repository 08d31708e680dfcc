#include "merge/coefficients.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "support/errors.h"

namespace dimred::merge {
namespace {

double schedule(Kind kind, double x) {
  if (kind == Kind::cosine) return (1 + std::cos(std::numbers::pi * x)) / 2;
  return kind == Kind::minus_sqrt ? 1 - std::sqrt(x) : 1 - x;
}

Coefficients of_decay(std::span<const std::int64_t> steps, Kind kind) {
  const auto n = steps.size();
  for (std::size_t i = 1; i < n; ++i)
    require(steps[i - 1] < steps[i],
            "[merge] needs checkpoints with ascending steps, received step {} before step {}",
            steps[i - 1],
            steps[i]);
  const auto since_first = [&](std::size_t i) {
    return static_cast<double>(steps[i]) - static_cast<double>(steps[0]);
  };
  const double span = n == 1 ? 1 : since_first(n - 1) * static_cast<double>(n) / (n - 1);
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double next = i + 1 == n ? 1 : since_first(i + 1) / span;
    values[i] = schedule(kind, since_first(i) / span) - schedule(kind, next);
  }
  return {std::move(values)};
}

/// In proportion to these.
Coefficients normalised(std::vector<double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  return {std::move(weights), sum};
}

/// t^gamma, over that of the newest: a large power of a step is beyond a double.
Coefficients of_power(std::span<const std::int64_t> steps, double gamma) {
  const auto newest = std::ranges::max(steps);
  require(
      std::ranges::min(steps) >= 0 && newest > 0,
      "[merge] --kind power needs steps >= 0 and at least one step > 0, received steps {} to {}",
      std::ranges::min(steps),
      newest);
  std::vector<double> weights;
  for (const auto step : steps)
    weights.push_back(std::pow(static_cast<double>(step) / static_cast<double>(newest), gamma));
  return normalised(std::move(weights));
}

template <class Value>
std::vector<double> by_place(std::size_t n, const Value& value) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = value(i);
  return values;
}

}  // namespace

const std::vector<std::pair<std::string, Kind>>& kind_names() {
  static const std::vector<std::pair<std::string, Kind>> names{{"mean", Kind::mean},
                                                               {"linear", Kind::linear},
                                                               {"cosine", Kind::cosine},
                                                               {"minus-sqrt", Kind::minus_sqrt},
                                                               {"wma", Kind::wma},
                                                               {"ema", Kind::ema},
                                                               {"pma-ema", Kind::pma_ema},
                                                               {"power", Kind::power}};
  return names;
}

std::vector<double> Coefficients::values() const {
  auto values = weights;
  for (auto& value : values) value /= divisor;
  return values;
}

Coefficients coefficients_of(std::span<const std::int64_t> steps,
                             const CoefficientOptions& options) {
  const auto n = steps.size();
  check(n > 0, "coefficients of no checkpoints");
  const auto age = [n](std::size_t i) { return static_cast<double>(n - 1 - i); };
  switch (options.kind) {
    case Kind::mean:
      return normalised(std::vector<double>(n, 1));
    case Kind::wma:
      return normalised(by_place(n, [](std::size_t i) { return static_cast<double>(i + 1); }));
    case Kind::ema:
      return normalised(by_place(n, [&](auto i) { return std::pow(options.decay, age(i)); }));
    case Kind::pma_ema:
      return {by_place(n, [&](std::size_t i) {
        return std::pow(1 - options.alpha, age(i)) * (i == 0 ? 1 : options.alpha);
      })};
    case Kind::power:
      return of_power(steps, options.gamma);
    default:
      return of_decay(steps, options.kind);
  }
}

}  // namespace dimred::merge
