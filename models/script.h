#pragma once

#include <memory>
#include <string>

#include "models/network.h"

namespace dimred::models {

/// Whether a model's name is a file: it ends in .pt, .pth, .ts or .torchscript, or holds a '/'.
bool is_script(const std::string& model);

/// The TorchScript module in `file` (torch.jit.script or torch.jit.trace, then .save) as a network,
/// with the weights that it holds. Parameters and buffers are the module's own, under its names, in
/// Python's order of named_parameters(), so that they can be made views of flat vectors. `classes`
/// 0: any number. The graph runs as it was written (no fusion, no JIT differentiation or autocast),
/// so that numbers and random draws are eager PyTorch's; its batch_norm obeys `operator_norms`.
/// Leaves the current generator advanced, as drawing weights would.
/// Throws std::invalid_argument, with the remedy, for: no file, no TorchScript (a state dict, a
/// pickled module), no parameters (frozen), parameters that are not float32, do not require
/// gradients or share storage, buffers that are neither float32 nor int64, a forward pass that does
/// not take images of `input` or gives anything but logits [batch, classes], and an evaluation mode
/// that is random or moves buffers (traced in training mode).
std::shared_ptr<Network> load_script(const std::string& file,
                                     const InputShape& input,
                                     std::int64_t classes);

}  // namespace dimred::models
