#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/types.h>

#include <map>
#include <string>

namespace dimred::models {

/// The parts of a TorchScript module that no state of a run keeps, as they are now: attributes that
/// are neither parameters nor buffers (copied), and which tensor is in each buffer's place (one
/// that is replaced instead of changed is lost). Cost: a copy of the attributes.
class UnsavedState {
 public:
  explicit UnsavedState(const torch::jit::Module& module) { collect(module, ""); }

  /// The first name, with its modules' before it, that differs in a later state of the same module;
  /// empty: none.
  std::string difference(const UnsavedState& after) const;
  bool is_buffer(const std::string& name) const { return buffers_.contains(name); }

 private:
  void collect(const torch::jit::Module& module, const std::string& prefix);

  std::map<std::string, torch::IValue> attributes_;
  std::map<std::string, const void*> buffers_;
};

}  // namespace dimred::models
