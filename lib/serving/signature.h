#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/preprocess.h"

namespace dimred::serving {

/// Files of an export folder.
inline constexpr auto signature_file = "signature.json";
inline constexpr auto weights_file = "weights.safetensors";
inline constexpr auto reference_file = "reference.safetensors";
inline constexpr auto module_file = "module.pt";

/// Everything beside the weights that is needed to classify an image, or to embed it.
struct Signature {
  std::string network;                   // by name; "torchscript": the module in module.pt
  std::optional<double> batch_norm_eps;  // unset: the network's own
  data::ImageShape input;                // of a prepared image
  std::int64_t outputs = 0;              // logits, or numbers of an embedding
  std::vector<std::string> classes;      // name of logit i at i; empty: the output is an embedding
  data::Preprocessing preprocessing;     // of evaluation: crop, mean and deviation, standardise
  nlohmann::ordered_json source;         // what was exported: run, weights, digest, accuracy
  bool is_module() const;
  /// The output's name: "logits" or "embeddings".
  std::string output_name() const;
};

nlohmann::ordered_json to_json(const Signature& signature);

/// Reads `folder`/signature.json. Throws std::invalid_argument when it is not there,
/// std::runtime_error naming the file when it is no signature of ours, its values contradict each
/// other, or it or a file of the folder has another digest than it says.
Signature read_signature(const std::filesystem::path& folder);

}  // namespace dimred::serving
