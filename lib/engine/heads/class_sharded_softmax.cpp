#include "engine/heads/class_sharded_softmax.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "support/ceiling.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::engine {
namespace {

using Counts = std::vector<std::int64_t>;

/// A number above 0 of a text, exact in a double.
double number_of(const std::string& text) {
  constexpr std::size_t hex_digits = 12;
  const auto hex = digest(text).substr(0, hex_digits);
  return 1.0 + std::stoull(hex, nullptr, 16);
}

/// Samples of each rank. Input that one rank cannot use, or that differs between ranks (`common`
/// says it in words), all refuse together, before anything is sent that depends on its shape.
Counts agreed_counts(const std::string& fault,
                     std::int64_t own,
                     const std::string& common,
                     Communicator& communicator) {
  const std::size_t size = communicator.size();
  const auto rank = communicator.rank();
  std::vector<double> numbers(2 * size);
  numbers[rank] = fault.empty() ? own : 0;
  numbers[size + rank] = fault.empty() ? number_of(common) : 0;
  communicator.sum(numbers);
  const auto seen = std::span(numbers).subspan(size);
  const auto first = std::ranges::find(seen, 0.0);
  if (first != seen.end()) {
    const auto texts = communicator.gather(fault);
    const auto who = first - seen.begin();
    refuse("[margin_loss] {}{}", texts[who], size > 1 ? formatted(" (rank {})", who) : "");
  }
  const auto other = std::ranges::find_if(seen, [&](double value) { return value != seen[0]; });
  if (other != seen.end()) {
    const auto texts = communicator.gather(common);
    const auto who = other - seen.begin();
    refuse(
        "[margin_loss] needs the same values on every rank, received {} (rank 0) and {} (rank {})",
        texts[0],
        texts[who],
        who);
  }
  return {numbers.begin(), numbers.begin() + size};
}

/// Every rank's samples, `width` numbers each, in one flat vector.
std::vector<layout::Shard> shards_of(const Counts& counts, std::int64_t width) {
  auto sizes = counts;
  for (auto& size : sizes) size *= width;
  return layout::consecutive(sizes);
}

}  // namespace

ClassRange class_range(std::int64_t classes, int rank, int ranks) {
  require(ranks >= 1 && rank >= 0 && rank < ranks,
          "[margin_loss] needs 0 <= rank < ranks, received rank = {}, ranks = {}",
          rank,
          ranks);
  require(classes >= ranks,
          "[margin_loss] needs at least one class for each rank, received {}{} and {} ranks",
          classes,
          classes == 1 ? " class" : " classes",
          ranks);
  const auto share = ceiling(classes, ranks);
  const auto begin = std::min(classes, rank * share);
  return {classes, begin, std::min(classes, begin + share)};
}

ClassShardedResult class_sharded_softmax(const torch::Tensor& features,
                                         const torch::Tensor& labels,
                                         const torch::Tensor& weights,
                                         const ClassRange& range,
                                         const models::Margin& margin,
                                         const models::ClassSampling& sampling,
                                         distributed::TensorCommunicator& communicator,
                                         bool with_gradients) {
  const torch::NoGradGuard no_grad;
  auto fault = models::batch_fault(features, labels, weights, range.classes);
  if (fault.empty() && weights.size(0) != range.size())
    fault = formatted("needs weights of {} classes, received {}", range.size(), weights.size(0));
  const auto common = fault.empty() ? formatted("D = {} in {} and {} classes",
                                                features.size(1),
                                                features.scalar_type(),
                                                range.classes)
                                    : std::string();
  const auto counts =
      agreed_counts(fault, fault.empty() ? labels.size(0) : 0, common, communicator);
  const auto samples = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});

  if (samples == 0) {  // a pass of the last partial batch, which may have fewer samples than passes
    ClassShardedResult none;
    if (!with_gradients) return none;
    none.feature_gradient = torch::zeros_like(features);
    none.weight_gradient = torch::zeros_like(weights);
    return none;
  }
  const auto unit = models::unit_rows(features, margin);
  const auto width = features.size(1);
  const auto rows = shards_of(counts, width);
  const auto all =
      communicator.all_gather(unit.rows.contiguous().view({-1}), rows).view({samples, width});
  auto targets =
      communicator.all_gather(labels.contiguous(), layout::consecutive(counts)) - range.begin;

  ClassShardedResult result;
  auto own_weights = weights;
  if (sampling.ratio != 1) {
    result.sampled =
        models::sampled_classes(sampling, range.classes, range.begin, range.size(), targets);
    own_weights = weights.index_select(0, result.sampled);
    targets = models::positions_in(result.sampled, targets);
  }
  models::MarginBlock block(all, targets, own_weights, margin);
  auto maxima = block.maxima();
  communicator.all_reduce_maximum(maxima);
  auto sums = block.sums(maxima);
  communicator.all_reduce(sums);

  result.loss = models::mean_loss(maxima, sums, features.scalar_type());
  result.samples = samples;
  result.correct = std::llround(sums[samples].item<double>());
  if (!with_gradients) return result;
  auto gradients = block.gradients(sums);
  result.weight_gradient = std::move(gradients.weights);
  const auto own = communicator.reduce_scatter(gradients.features.view({-1}), rows);
  result.feature_gradient = models::unit_rows_backward(unit, own.view({labels.size(0), width}));
  return result;
}

}  // namespace dimred::engine
