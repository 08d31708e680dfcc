#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "checkpoints/verbs/fold.h"
#include "support/file_state.h"

// A folder of PEFT's with a LoRA adapter, and what it does to the weights of a checkpoint.
namespace dimred::verbs {

/// The update of one weight; its factors are read when it is folded.
struct AdapterUpdate {
  std::string weight;  // the name that the adapter has for it
  std::size_t a = 0;   // of Adapter::checkpoint.tensors: [rank, in]
  std::size_t b = 0;   // [out, rank]
  double scale = 1;
  bool transposed = false;  // the weight is stored [in, out]
};

/// A tensor that takes the place of one of the checkpoint.
struct AdapterReplacement {
  std::string weight;
  std::size_t tensor = 0;  // of Adapter::checkpoint.tensors
};

struct Adapter {
  std::filesystem::path folder;
  checkpoints::Checkpoint checkpoint;
  FileGuard config;  // of adapter_config.json
  std::vector<AdapterUpdate> updates;
  std::vector<AdapterReplacement> replacements;  // modules_to_save, biases, whole embeddings
};

/// Opens a folder with adapter_config.json and adapter_model.safetensors or .bin. Throws
/// std::invalid_argument, naming the entry or tensor, for adapters that are no LoRA or rsLoRA
/// (DoRA, other kinds, an initialisation that changes the base weights), and for A without B.
Adapter open_adapter(const std::filesystem::path& folder);

/// The updates and the replacement that an adapter has for one tensor of a checkpoint.
struct TensorFold {
  std::vector<std::size_t> updates;        // of Adapter::updates
  std::optional<std::size_t> replacement;  // of Adapter::replacements
  bool changes() const { return !updates.empty() || replacement.has_value(); }
};

struct Folds {
  std::vector<TensorFold> tensors;  // of each tensor of the checkpoint
  std::string remark;               // of the prefix by which the names differ; empty: none
};

/// Finds the weights of an adapter by their names, which may differ by one prefix. An update of a
/// tied tensor is one of all that lie in the same place, as PEFT's merge changes the one weight.
/// Throws std::invalid_argument for a tensor that finds no weight, one of another shape or of a
/// type that no sum has.
Folds folds_of(const Adapter& adapter, const checkpoints::Checkpoint& source);

/// Reads the factors of an update. Memory: 8 bytes for each of their values, and those of one more.
LowRankUpdate read_update(const Adapter& adapter,
                          const AdapterUpdate& update,
                          const checkpoints::TensorReader& reader);

}  // namespace dimred::verbs
