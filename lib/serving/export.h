#pragma once

#include <filesystem>

#include "engine/setup.h"
#include "run/options.h"
#include "serving/signature.h"

namespace dimred::serving {

/// The signature of a network that has weights, as evaluation prepares images for it. `model` is
/// the name or file that it was made from; `source` goes in as it is.
Signature signature_of(const engine::Setup& setup,
                       const engine::ModelOptions& model,
                       nlohmann::ordered_json source);

/// Writes the network's present weights into a new folder `parent`/N, N one more than the largest
/// there, and returns it. The folder appears whole: weights.safetensors (parameters and buffers by
/// name: float32, counters int64), signature.json, reference.safetensors (the first test images as
/// prepared, standard normal ones where the setup has no data, and their logits in evaluation mode,
/// to check other forms of the network by), and
/// module.pt, a copy of `module` unless that is empty. Throws std::runtime_error for I/O errors and
/// weights that are not finite.
std::filesystem::path export_network(engine::Setup& setup,
                                     const Signature& signature,
                                     const std::filesystem::path& parent,
                                     const std::filesystem::path& module);

/// The export at `path`: the folder itself, the one whose weights it is, or the newest version in
/// it, unless it is a run's folder; empty where there is none.
std::filesystem::path find_export(const std::filesystem::path& path);

/// A setup for prediction from such a folder: the network with its weights, nothing of a data set.
engine::Setup open_export(const std::filesystem::path& folder,
                          const Signature& signature,
                          const run::RunOptions& run);

}  // namespace dimred::serving
