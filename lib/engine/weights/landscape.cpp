#include "engine/weights/landscape.h"

#include <algorithm>

#include "support/errors.h"
#include "support/random.h"

namespace dimred::engine {
namespace {

double inner_product(const torch::Tensor& one, const torch::Tensor& other) {
  return torch::dot(one.to(torch::kFloat64), other.to(torch::kFloat64)).item<double>();
}

}  // namespace

Plane plane_through(const Model& model, torch::Tensor first, torch::Tensor second) {
  return {.center = model.flat.weights.detach().clone(),
          .first = std::move(first),
          .second = std::move(second),
          .buffers = model.flat.buffers.clone(),
          .counters = model.flat.counters.clone()};
}

Coordinates coordinates(const Plane& plane, const torch::Tensor& weights) {
  const auto away = weights.detach().to(torch::kFloat64) - plane.center;
  const double a = inner_product(plane.first, away), b = inner_product(plane.second, away);
  const auto rest = away - a * plane.first.to(torch::kFloat64) - b * plane.second;
  return {.a = a, .b = b, .distance = rest.norm().item<double>()};
}

Score score_here(Setup& setup, const data::Dataset& dataset, const Recalibration& options) {
  if (options.recalibrate) recalibrate_batchnorm(setup, options.batchnorm_batches);
  return evaluate(setup, dataset);
}

Score score_in_plane(Setup& setup,
                     const Plane& plane,
                     double a,
                     double b,
                     const data::Dataset& dataset,
                     const Recalibration& options) {
  auto& flat = setup.model.flat;
  flat.weights.detach().copy_(plane.center).add_(plane.first, a).add_(plane.second, b);
  flat.buffers.copy_(plane.buffers);
  flat.counters.copy_(plane.counters);
  return score_here(setup, dataset, options);
}

double Axis::at(std::int64_t index) const {
  if (points == 1) return (low + high) / 2;
  const double share = 1.0 * index / (points - 1);
  return (1 - share) * low + share * high;  // exact at both ends
}

Axis axis_around(const std::vector<double>& values, double margin, std::int64_t points) {
  double low = 0, high = 0;
  for (const double value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const double more = margin * (high - low);
  return {.low = low - more, .high = high + more, .points = points};
}

std::vector<std::int64_t> drawn_indices(std::int64_t size, std::int64_t count, std::uint64_t seed) {
  if (count == 0 || count > size) count = size;
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) {
    indices.push_back(permuted(i, size, seed, RandomPurpose::subset, 0));
  }
  std::ranges::sort(indices);
  return indices;
}

std::vector<double> shared_among(Communicator& communicator,
                                 std::int64_t count,
                                 std::int64_t width,
                                 const std::function<std::vector<double>(std::int64_t)>& work,
                                 const std::function<void(std::int64_t)>& done) {
  std::vector<double> all(count * width);
  const std::int64_t ranks = communicator.size();
  for (std::int64_t begin = 0; begin < count; begin += ranks) {
    const auto end = std::min(begin + ranks, count);
    const auto round = std::span(all).subspan(begin * width, (end - begin) * width);
    if (const auto own = begin + communicator.rank(); own < end) {
      const auto numbers = work(own);
      check(std::ssize(numbers) == width, "an item of another width");
      std::ranges::copy(numbers, round.begin() + (own - begin) * width);
    }
    communicator.sum(round);  // the others' places are 0
    done(end);
  }
  return all;
}

}  // namespace dimred::engine
