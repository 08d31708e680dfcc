#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "checkpoints/lora_config.h"

// Where the tensors of a LoRA adapter go in the checkpoint that it was trained on, as PEFT's
// merge_and_unload has it.
namespace dimred::checkpoints {

/// An update s B A of a weight, by the places of its factors in the adapter.
struct LoraUpdate {
  std::string module;
  std::size_t a = 0;        // [rank, columns]
  std::size_t b = 0;        // [rows, rank]
  bool transposed = false;  // the weight is stored [columns, rows]
};

/// Changes by an adapter to one tensor of a base; numbers are places of the adapter's tensors.
struct LoraFold {
  std::vector<LoraUpdate> updates;
  std::optional<std::size_t> bias;     // of B, added times s
  std::optional<std::size_t> instead;  // takes the tensor's place
  bool changes() const { return !updates.empty() || bias || instead; }
};

struct LoraFolds {
  std::vector<LoraFold> tensors;     // of each tensor of the base
  std::vector<std::string> remarks;  // what a person should know, a line each
  bool unties = false;  // the head and the embedding were one tensor, and are no longer
};

/// Finds the base's tensors that an adapter changes, whose names may differ by one prefix. Whatever
/// PEFT changes in place changes all that lie there: an update, and a tensor saved beside it; a
/// copy that was trained (modules_to_save) has its own name alone. A copy that the base lacks, as a
/// new head, becomes the last tensor of `base`; a head that the base lacks is the embedding to
/// which config.json ties it. The shape says how a weight is stored, as the class of a layer does
/// for PEFT; of a square one fan_in_fan_out does, where the other layers agree with it. Throws
/// std::invalid_argument, naming the first tensor, for one that finds none in the base or one of
/// another shape or type, for one factor without the other, and where it cannot be known what PEFT
/// would do.
LoraFolds lora_folds(const Checkpoint& adapter, const LoraConfig& config, Checkpoint& base);

}  // namespace dimred::checkpoints
