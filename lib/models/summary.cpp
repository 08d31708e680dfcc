#include "models/summary.h"

#include <ATen/record_function.h>

#include <map>

namespace dimred::models {
namespace {

using Weights = std::map<const void*, LayerSummary*>;  // by where the weight's values lie
thread_local Weights* watched = nullptr;  // RecordFunction's callbacks take no argument of ours

std::vector<std::int64_t> shape(const torch::Tensor& tensor) { return tensor.sizes().vec(); }

const torch::Tensor* tensor_at(c10::ArrayRef<const c10::IValue> values, std::size_t at) {
  return at < values.size() && values[at].isTensor() ? &values[at].toTensor() : nullptr;
}

/// A call of an operator on a layer's weight. Inputs are known only before it, outputs only after.
struct Call final : at::ObserverContext {
  LayerSummary* layer = nullptr;
  std::int64_t multiply_adds_an_output = 0;
};

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function) {
  const std::string name = function.name();
  const bool linear = name == "aten::addmm";  // bias + x * weight'
  if (!linear && name != "aten::conv2d" && name != "aten::batch_norm") return nullptr;
  const auto* weight = tensor_at(function.inputs(), linear ? 2 : 1);
  if (weight == nullptr || !weight->defined()) return nullptr;
  const auto found = watched->find(weight->const_data_ptr());
  if (found == watched->end()) return nullptr;
  auto call = std::make_unique<Call>();
  call->layer = found->second;
  if (linear) call->multiply_adds_an_output = weight->size(0);
  if (weight->dim() == 4) call->multiply_adds_an_output = weight->numel() / weight->size(0);
  return call;
}

void after_operator(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr || function.outputs().empty()) return;
  const auto& call = *static_cast<Call*>(context);
  const auto& output = function.outputs()[0].toTensor();
  call.layer->output = shape(output);
  call.layer->multiply_adds += output.numel() * call.multiply_adds_an_output;
}

std::string kind_of(const torch::nn::Module& module) {
  auto kind = module.name();
  const auto colon = kind.rfind(':');
  if (colon != std::string::npos) kind = kind.substr(colon + 1);
  return kind.ends_with("Impl") ? kind.substr(0, kind.size() - 4) : kind;
}

}  // namespace

NetworkSummary summarise(Network& network, const InputShape& input) {
  NetworkSummary summary;
  Weights weights;
  const auto modules = network.named_modules("", /*include_self=*/false);
  summary.layers.reserve(modules.size());  // so that they stay where they are
  for (const auto& item : modules) {
    const auto own = item.value()->parameters(/*recurse=*/false);
    if (own.empty()) continue;
    auto& layer = summary.layers.emplace_back();
    layer.name = item.key();
    layer.kind = kind_of(*item.value());
    layer.weight = shape(own.front());
    for (const auto& parameter : own) layer.parameters += parameter.numel();
    weights[own.front().const_data_ptr()] = &layer;
  }
  watched = &weights;
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(&before_operator, &after_operator)
                                     .needsInputs(true)
                                     .needsOutputs(true));
  {
    const torch::NoGradGuard no_grad;
    network.eval();
    network.forward(torch::zeros({1, input.channels, input.height, input.width}));
  }
  at::removeCallback(handle);
  watched = nullptr;
  for (const auto& layer : summary.layers) {
    summary.parameters += layer.parameters;
    summary.multiply_adds += layer.multiply_adds;
  }
  for (const auto& buffer : network.buffers())
    if (buffer.is_floating_point()) summary.buffers += buffer.numel();
  return summary;
}

}  // namespace dimred::models
