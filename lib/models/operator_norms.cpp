#include "models/operator_norms.h"

#include <torch/library.h>

#include <algorithm>

namespace dimred::models {
namespace {

thread_local OperatorNorms* active = nullptr;

OperatorNorms::Layer& layer_of(OperatorNorms& norms,
                               const torch::Tensor& running_mean,
                               const torch::Tensor& running_var) {
  const auto found = std::ranges::find_if(
      norms.layers, [&](const auto& layer) { return layer.running_mean.is_same(running_mean); });
  if (found != norms.layers.end()) return *found;
  norms.layers.push_back({running_mean, running_var});
  return norms.layers.back();
}

torch::Tensor batch_norm(const torch::Tensor& input,
                         const std::optional<torch::Tensor>& weight,
                         const std::optional<torch::Tensor>& bias,
                         const std::optional<torch::Tensor>& running_mean,
                         const std::optional<torch::Tensor>& running_var,
                         bool training,
                         double momentum,
                         double eps,
                         bool cudnn_enabled) {
  const auto tensor = [](const std::optional<torch::Tensor>& value) {
    return value.value_or(torch::Tensor());
  };
  const BatchNormTensors layer{
      tensor(weight), tensor(bias), tensor(running_mean), tensor(running_var), {}};
  if (training && active != nullptr && layer.running_mean.defined()) {
    auto& seen = layer_of(*active, layer.running_mean, layer.running_var);
    if (active->cumulative) momentum = 1.0 / ++seen.batches;
  }
  if (training && active != nullptr && active->sum_over_ranks)
    return global_batch_norm(input, layer, momentum, eps, active->sum_over_ranks);
  return at::batch_norm(
      input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled);
}

}  // namespace

TORCH_LIBRARY(dimred, library) {
  library.def(
      "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!)? running_mean, "
      "Tensor(b!)? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> "
      "Tensor",
      &batch_norm);
}

bool OperatorNorms::has(const torch::Tensor& buffer) const {
  return std::ranges::any_of(layers, [&](const Layer& layer) {
    return layer.running_mean.is_same(buffer) || layer.running_var.is_same(buffer);
  });
}

void OperatorNorms::set_cumulative(bool on) {
  cumulative = on;
  for (auto& layer : layers) layer.batches = 0;
}

void OperatorNorms::reset_running_statistics() {
  for (auto& layer : layers) {
    layer.running_mean.zero_();
    layer.running_var.zero_();
  }
  for (auto& counter : counters) counter.zero_();
}

OperatorNormsScope::OperatorNormsScope(OperatorNorms& norms) : before_(active) { active = &norms; }
OperatorNormsScope::~OperatorNormsScope() { active = before_; }

}  // namespace dimred::models
