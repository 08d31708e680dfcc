#pragma once

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>

#include <memory>

#include "models/operator_norms.h"

namespace dimred::models {

/// A TorchScript module's forward pass in one graph of our own: nothing is fused, differentiated or
/// cast by the JIT, and dimred::batch_norm stands for aten::batch_norm. The module is not changed;
/// attributes (parameters, buffers, `training`) are read from it at every call.
class ScriptForward {
 public:
  /// Throws std::invalid_argument when the module has no forward(images, arguments with defaults).
  explicit ScriptForward(const torch::jit::Module& module);
  /// Throws std::runtime_error with the first line of what went wrong in the graph.
  torch::IValue operator()(const torch::Tensor& images, OperatorNorms& norms);

 private:
  torch::jit::Module module_;
  std::unique_ptr<torch::jit::GraphFunction> function_;
};

}  // namespace dimred::models
