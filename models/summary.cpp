#include "models/summary.h"

#include <ATen/record_function.h>

#include <map>

namespace dimred::models {
namespace {

using Weights = std::map<const c10::TensorImpl*, LayerSummary*>;
thread_local Weights* watched = nullptr;  // RecordFunction's callbacks take no argument of ours

std::vector<std::int64_t> shape(const torch::Tensor& tensor) { return tensor.sizes().vec(); }

const torch::Tensor* tensor_at(c10::ArrayRef<const c10::IValue> values, std::size_t at) {
  return at < values.size() && values[at].isTensor() ? &values[at].toTensor() : nullptr;
}

/// The operator's second argument is a weight of ours: its layer made this output.
void after_operator(const at::RecordFunction& call, at::ObserverContext* /*context*/) {
  const std::string name = call.name();
  const bool multiplies = name == "aten::conv2d" || name == "aten::linear";
  if (!multiplies && name != "aten::batch_norm") return;
  const auto* weight = tensor_at(call.inputs(), 1);
  if (weight == nullptr || !weight->defined() || call.outputs().empty()) return;
  const auto found = watched->find(weight->unsafeGetTensorImpl());
  if (found == watched->end()) return;
  const auto& output = call.outputs()[0].toTensor();
  found->second->output = shape(output);
  if (multiplies)
    found->second->multiply_adds += output.numel() * (weight->numel() / weight->size(0));
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
  for (const auto& item : network.named_modules("", /*include_self=*/false)) {
    const auto own = item.value()->named_parameters(/*recurse=*/false);
    if (own.is_empty()) continue;
    LayerSummary layer{.name = item.key(), .kind = kind_of(*item.value())};
    layer.weight = shape(own.begin()->value());
    for (const auto& parameter : own) layer.parameters += parameter.value().numel();
    summary.layers.push_back(layer);
  }
  Weights weights;
  std::size_t next = 0;
  for (const auto& item : network.named_modules("", /*include_self=*/false)) {
    const auto own = item.value()->named_parameters(/*recurse=*/false);
    if (!own.is_empty())
      weights[own.begin()->value().unsafeGetTensorImpl()] = &summary.layers[next++];
  }
  watched = &weights;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(nullptr, &after_operator).needsInputs(true).needsOutputs(true));
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
