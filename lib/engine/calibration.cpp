#include "engine/calibration.h"

#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "engine/evaluate.h"
#include "support/errors.h"

namespace dimred::engine {
namespace {

constexpr std::int64_t bins = 15;

double number(const torch::Tensor& value) { return value.item<double>(); }

double sum_over_ranks(double value, Communicator& communicator) {
  std::array<double, 1> sum{value};
  communicator.sum(sum);
  return sum[0];
}

}  // namespace

Predictions predictions(Setup& setup, const data::Dataset& dataset) {
  auto& objective = *setup.model.objective;
  require(!objective.head(),
          "[fit_temperature] needs a network with logits as outputs, but this network was trained "
          "with margin_loss");
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> logits, labels;
  for_each_batch(setup, dataset, [&](const DeviceBatch& batch) {
    const auto output = objective.logits(batch.tensors.images, models::Mode::evaluate);
    logits.push_back(output.to(torch::kCPU, torch::kFloat32));
    labels.push_back(
        batch.tensors.labels.to(torch::kCPU).clone());  // the batch's buffers are used again
  });
  if (logits.empty())  // a rank without a sample
    return {.logits = torch::zeros({0, 1}), .labels = torch::zeros({0}, torch::kInt64)};
  return {.logits = torch::cat(logits), .labels = torch::cat(labels)};
}

double best_temperature(const Predictions& found, Communicator& communicator) {
  const auto logits = found.logits.to(torch::kFloat64);
  const auto of_labels = number(logits.gather(1, found.labels.unsqueeze(1)).sum());
  // The bounds are those of beta, the inverse temperature.
  double low = -std::log(highest_temperature), high = -std::log(lowest_temperature);
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    const auto expected = (torch::softmax(std::exp(middle) * logits, 1) * logits).sum();
    const double slope = sum_over_ranks(number(expected) - of_labels, communicator);
    require_environment(
        std::isfinite(slope),
        "[fit_temperature] cannot fit a temperature, because a logit is not finite");
    (slope > 0 ? high : low) = middle;
  }
  return std::exp(-(low + high) / 2);
}

Calibration calibration(const Predictions& found, double temperature, Communicator& communicator) {
  const auto log_probabilities =
      torch::log_softmax(found.logits.to(torch::kFloat64) / temperature, 1);
  const auto loss = torch::nll_loss(log_probabilities, found.labels, {}, at::Reduction::Sum);
  const auto [confidence, classes] = log_probabilities.exp().max(1);
  const auto correct = (classes == found.labels).to(torch::kFloat64);
  const auto bin = (confidence * bins).to(torch::kInt64).clamp_max(bins - 1);
  const auto excess =
      torch::zeros({bins}, torch::kFloat64).index_add_(0, bin, confidence - correct);
  std::array<double, bins + 2> sums{};
  std::copy_n(excess.const_data_ptr<double>(), bins, sums.begin());
  sums[bins] = number(loss);
  sums[bins + 1] = static_cast<double>(found.labels.size(0));
  communicator.sum(sums);
  Calibration result{.loss = sums[bins] / sums[bins + 1]};
  for (std::int64_t i = 0; i < bins; ++i) result.error += std::abs(sums[i]) / sums[bins + 1];
  return result;
}

}  // namespace dimred::engine
