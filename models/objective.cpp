#include "models/objective.h"

#include <ATen/autocast_mode.h>
#include <ATen/cpu/Utils.h>
#include <torch/nn/modules/batchnorm.h>

#include <optional>
#include <utility>

#include "models/network.h"

namespace dimred::models {
namespace {

/// Autocast for one forward pass; the cache of casted weights dies with it.
class AutocastScope {
 public:
  AutocastScope(bool enabled, torch::DeviceType device) : enabled_(enabled), device_(device) {
    if (!enabled_) return;
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, at::kBFloat16);
  }
  ~AutocastScope() {
    if (!enabled_) return;
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, false);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool enabled_;
  torch::DeviceType device_;
};

class Classifier final : public Objective {
 public:
  Classifier(std::shared_ptr<Network> network, const ObjectiveOptions& options)
      : network_(std::move(network)), options_(options) {
    for (auto& module : network_->modules(/*include_self=*/false)) {
      if (auto norm = std::dynamic_pointer_cast<torch::nn::BatchNorm2dImpl>(module))
        norms_.emplace_back(norm, norm->options.momentum());
    }
  }

  Evaluation evaluate(const Minibatch& batch, Mode mode) override {
    const auto output = logits(batch.images, mode);
    auto losses = cross_entropy(output, batch.labels, options_.loss);
    if (mode == Mode::train && network_->auxiliary_logits.defined()) {
      losses =
          losses + auxiliary_weight * cross_entropy(std::exchange(network_->auxiliary_logits, {}),
                                                    batch.labels,
                                                    options_.loss);
    }
    const auto correct = output.detach().argmax(1).eq(batch.labels).sum();
    return {losses.sum(torch::kFloat64), batch.labels.size(0), correct};
  }

  torch::Tensor logits(const torch::Tensor& images, Mode mode) override {
    network_->train(mode == Mode::train);
    const AutocastScope autocast(options_.precision == Precision::bfloat16, images.device().type());
    return network_->forward(images);
  }

  std::vector<NamedTensor> parameters() override {
    std::vector<NamedTensor> list;
    for (auto& item : network_->named_parameters()) list.push_back({item.key(), item.value()});
    return list;
  }

  std::vector<NamedTensor> buffers() override {
    std::vector<NamedTensor> list;
    for (auto& item : network_->named_buffers()) list.push_back({item.key(), item.value()});
    return list;
  }

  int batchnorm_layers() override {
    const auto& operators = network_->operator_norms;
    return static_cast<int>(norms_.size() + (operators ? operators->layers.size() : 0));
  }

  void set_cumulative_batchnorm(bool cumulative) override {
    for (auto& [norm, momentum] : norms_)
      norm->options.momentum(cumulative ? std::nullopt : momentum);
    if (network_->operator_norms) network_->operator_norms->set_cumulative(cumulative);
  }

  void reset_running_statistics() override {
    const torch::NoGradGuard no_grad;
    for (auto& [norm, momentum] : norms_) {
      for (auto& buffer : norm->buffers()) buffer.zero_();
    }
    if (network_->operator_norms) network_->operator_norms->reset_running_statistics();
  }

  void restore_constants() override {
    if (network_->operator_norms) network_->operator_norms->restore_constants();
  }

  void synchronize_batchnorm(const SumOverRanks& sum) override {
    for (auto& module : network_->modules(/*include_self=*/false)) {
      if (auto* norm = module->as<BatchNorm2d>()) norm->sum_over_ranks = sum;
    }
    if (network_->operator_norms) network_->operator_norms->sum_over_ranks = sum;
  }

 private:
  std::shared_ptr<Network> network_;
  ObjectiveOptions options_;
  std::vector<std::pair<std::shared_ptr<torch::nn::BatchNorm2dImpl>, std::optional<double>>> norms_;
};

}  // namespace

std::unique_ptr<Objective> classifier(std::shared_ptr<Network> network,
                                      const ObjectiveOptions& options) {
  return std::make_unique<Classifier>(std::move(network), options);
}

bool has_native_bfloat16(torch::Device device) {
  if (device.is_cuda()) return true;
  const auto capabilities = at::cpu::get_cpu_capabilities();
  const auto has = [&](const char* name) {
    const auto found = capabilities.find(name);
    return found != capabilities.end() && found->second.isBool() && found->second.toBool();
  };
  return has("avx512_bf16") || has("amx_bf16");
}

}  // namespace dimred::models
