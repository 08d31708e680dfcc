#pragma once

#include <functional>
#include <memory>
#include <string>

#include "models/network.h"

namespace dimred::models {

/// Whether a model's name is a file: it ends in .pt, .pth, .ts or .torchscript, or holds a '/'.
bool is_script(const std::string& model);

/// Callbacks of this process around the modules that it loads; without them, nothing is done.
struct ScriptHost {
  double timeout = 60;  // seconds for loading a module and the passes that try it
  std::function<void(const std::string& text)> say;  // each text once: the file is code
  /// From another thread, when the time is over, and with it the process: a module's forward pass
  /// cannot be interrupted.
  std::function<void(const std::string& text)> end;
};
ScriptHost& script_host();

/// The TorchScript module in `file` (torch.jit.script or torch.jit.trace, then .save) as a network,
/// with the weights that it holds. Parameters and buffers are the module's own, under its names, in
/// Python's order of named_parameters(), so that they can be made views of flat vectors. `classes`
/// 0: any number. The graph runs as it was written (no fusion, no JIT differentiation or autocast),
/// so that numbers and random draws are eager PyTorch's; its batch_norm obeys `operator_norms`.
/// It has the operators of allow_only_computing() (models/script_operators.h).
/// Leaves the current generator advanced, as drawing weights would.
/// Throws std::invalid_argument, with the remedy, for: no file, no TorchScript (a state dict, a
/// pickled module), an operator that it does not have, no parameters (frozen), parameters that are
/// not float32, do not require gradients or share storage, buffers that are neither float32 nor
/// int64, a forward pass that does not take images of `input` or gives anything but logits [batch,
/// classes], and an evaluation mode that is random or moves buffers (traced in training mode).
std::shared_ptr<Network> load_script(const std::string& file,
                                     const InputShape& input,
                                     std::int64_t classes);

}  // namespace dimred::models
