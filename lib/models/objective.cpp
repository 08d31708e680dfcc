#include "models/objective.h"

#include <ATen/cpu/Utils.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <optional>
#include <set>
#include <utility>

#include "models/batch_norm_layer.h"
#include "models/network.h"
#include "support/errors.h"

namespace dimred::models {
namespace {

class Classifier final : public Objective {
 public:
  Classifier(std::shared_ptr<Network> network, const ObjectiveOptions& options)
      : network_(std::move(network)), options_(options), casts_(options.amp) {
    for (auto& module : network_->modules(/*include_self=*/false)) {
      if (auto norm = std::dynamic_pointer_cast<torch::nn::BatchNorm2dImpl>(module))
        norms_.emplace_back(norm, norm->options.momentum());
    }
  }

  Evaluation evaluate(const Minibatch& batch, Mode mode) override {
    if (options_.head) return evaluate_head(batch, mode);
    const auto output = logits(batch.images, mode);
    auto losses =
        cross_entropy(output, batch.labels, mode == Mode::train ? options_.loss : LossOptions{});
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
    for (auto& norm : frozen_norms_) norm->eval();
    const AutocastScope autocast(options_.precision, images.device().type());
    return network_->forward(images);
  }

  Head* head() override { return options_.head.get(); }

  std::vector<NamedTensor> parameters() override {
    auto list = listed(network_->named_parameters(),
                       [](const auto& item) { return item.value().requires_grad(); });
    if (!options_.head) return list;
    const auto own = network_->named_parameters();
    for (auto& parameter : options_.head->parameters()) {
      if (own.contains(parameter.name)) parameter.name = "margin_" + parameter.name;
      list.push_back(std::move(parameter));
    }
    return list;
  }

  std::vector<NamedTensor> buffers() override {
    return listed(network_->named_buffers(),
                  [&](const auto& item) { return !frozen_buffers_.contains(item.key()); });
  }

  /// A count of batches has no part in a layer that no longer counts them.
  std::vector<NamedTensor> frozen() override {
    auto list = listed(network_->named_parameters(),
                       [](const auto& item) { return !item.value().requires_grad(); });
    const auto statistics = listed(network_->named_buffers(), [&](const auto& item) {
      return frozen_buffers_.contains(item.key()) && item.value().is_floating_point();
    });
    list.insert(list.end(), statistics.begin(), statistics.end());
    return list;
  }

  void freeze(const std::function<bool(const std::string&)>& is_frozen) override {
    require(!network_->operator_norms || network_->operator_norms->layers.empty(),
            "[models] dimred cannot freeze a part of a TorchScript module that trains BatchNorm "
            "layers, because the graph does not show which layer has which running statistic; use "
            "fixed statistics (torchvision's FrozenBatchNorm2d), or train the whole module");
    for (auto& item : network_->named_parameters())
      if (is_frozen(item.key())) item.value().requires_grad_(false);
    for (auto& item : network_->named_modules("", /*include_self=*/false)) {
      const auto norm = std::dynamic_pointer_cast<torch::nn::BatchNorm2dImpl>(item.value());
      if (!norm || !norm->weight.defined() || norm->weight.requires_grad() ||
          norm->bias.requires_grad())
        continue;
      frozen_norms_.push_back(norm);
      std::erase_if(norms_, [&](const auto& one) { return one.first == norm; });
      for (const auto& buffer : norm->named_buffers(/*recurse=*/false))
        frozen_buffers_.insert(item.key() + "." + buffer.key());
    }
  }

  int batchnorm_layers() override {
    const auto& operators = network_->operator_norms;
    return norms_.size() + (operators ? operators->layers.size() : 0);
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

  std::vector<torch::Tensor> constants() override {
    return network_->operator_norms ? network_->operator_norms->constants
                                    : std::vector<torch::Tensor>();
  }

  void synchronize_batchnorm(const SumOverRanks& sum) override {
    for (auto& module : network_->modules(/*include_self=*/false)) {
      if (auto* norm = module->as<BatchNorm2d>()) norm->sum_over_ranks = sum;
    }
    auto& operators = network_->operator_norms;
    require(!operators || operators->others.empty(),
            "[models] batchnorm_statistics = synchronized needs a network in which only BatchNorm "
            "changes buffers in training; use averaged or rank0 for this network");
    if (operators) operators->sum_over_ranks = sum;
    synchronized_ = true;
  }

 private:
  /// A rank without samples has no features, unless BatchNorm over ranks needs its pass.
  Evaluation evaluate_head(const Minibatch& batch, Mode mode) {
    auto& head = *options_.head;
    const bool empty = batch.labels.size(0) == 0 && !(synchronized_ && mode == Mode::train);
    const auto features =
        empty ? torch::zeros({0, head.feature_size()}, torch::device(batch.images.device()))
              : logits(batch.images, mode).to(torch::kFloat32);
    require(!std::exchange(network_->auxiliary_logits, {}).defined(),
            "[models] margin_loss needs a network without an auxiliary classifier");
    return head.evaluate(features, batch.labels, mode);
  }

  template <class Items, class Keep>
  static std::vector<NamedTensor> listed(const Items& items, Keep keep) {
    std::vector<NamedTensor> list;
    for (const auto& item : items)
      if (keep(item)) list.push_back({item.key(), item.value()});
    return list;
  }

  std::shared_ptr<Network> network_;
  ObjectiveOptions options_;
  AmpCasts casts_;
  std::vector<std::pair<std::shared_ptr<torch::nn::BatchNorm2dImpl>, std::optional<double>>> norms_;
  std::vector<std::shared_ptr<torch::nn::BatchNorm2dImpl>> frozen_norms_;
  std::set<std::string> frozen_buffers_;  // names of theirs
  bool synchronized_ = false;             // BatchNorm, over ranks
};

}  // namespace

std::unique_ptr<Objective> classifier(std::shared_ptr<Network> network,
                                      const ObjectiveOptions& options) {
  return std::make_unique<Classifier>(std::move(network), options);
}

std::vector<NamedTensor> all_tensors(Objective& objective) {
  auto all = objective.parameters();
  for (const auto& more : {objective.frozen(), objective.buffers()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

bool has_native_bfloat16(torch::Device device) {
  if (device.is_cuda()) return at::detail::getCUDAHooks().supportsBFloat16ConvolutionWithCuDNNv8();
  const auto capabilities = at::cpu::get_cpu_capabilities();
  const auto has = [&](const char* name) {
    const auto found = capabilities.find(name);
    return found != capabilities.end() && found->second.isBool() && found->second.toBool();
  };
  return has("avx512_bf16") || has("amx_bf16");
}

}  // namespace dimred::models
