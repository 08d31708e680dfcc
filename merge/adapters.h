#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoints/lora_config.h"
#include "checkpoints/shard_plan.h"
#include "checkpoints/shard_writer.h"
#include "merge/inputs.h"
#include "merge/pass.h"

// The mean of LoRA adapters that PEFT has saved: one adapter of the summed rank, as the mean of
// products is no product of means. Its B A is the mean of s B A.
namespace dimred::merge {

/// Adapters of one form: the same modules, whatever their ranks.
struct Adapters {
  std::vector<checkpoints::LoraConfig> configs;  // of each input
  std::vector<std::vector<std::size_t>> places;  // [tensor of the first][input]: of its tensors
  std::map<std::string, std::vector<std::int64_t>> ranks;  // of each module [input]
  std::vector<checkpoints::TensorReader> readers;          // of each input
};

/// Reads the configurations of inputs whose tensors are read, and guards them. Throws
/// std::invalid_argument for adapters of another kind, a tensor that one of them lacks, and for
/// types and shapes that differ otherwise than by a rank.
Adapters read_adapters(std::vector<Input>& inputs, bool may_have_other_bases);

/// Throws std::invalid_argument for a part that takes a module's two factors by different
/// coefficients.
void require_one_rule(const Part& part, const Input& like);

/// The tensor of an input that is the first one's `tensor`.
const checkpoints::StoredTensor& tensor_of(const std::vector<Input>& inputs,
                                           const Adapters& adapters,
                                           std::size_t tensor,
                                           std::size_t input);

/// Reads the input's elements from `first` on, times the share: added to `sums`, or in their place
/// where they `replace` them.
void add_elements(const std::vector<Input>& inputs,
                  const Adapters& adapters,
                  std::size_t tensor,
                  std::size_t input,
                  std::int64_t first,
                  double share,
                  bool replace,
                  std::span<double> sums);

/// Throws std::invalid_argument where a tensor that is not summed differs between a part's inputs;
/// BatchNorm's statistics may.
void require_equal_copies(const Part& part,
                          const std::vector<Input>& inputs,
                          const checkpoints::TensorDigests& read);

/// The share of an input's tensor in a part: its coefficient, of B and its bias times s.
double share_of(const Part& part,
                const Adapters& adapters,
                const std::vector<Input>& inputs,
                std::size_t tensor,
                std::size_t place);

/// The digests of all tensors of all inputs, [input][tensor of the first], read block by block,
/// whose bytes the progress expects already. Throws std::invalid_argument for a value that is not
/// finite.
checkpoints::TensorDigests digests_of(const std::vector<Input>& inputs,
                                      const Adapters& adapters,
                                      const PassOptions& options);

/// The tensors of the mean, whose factors have the sums of the ranks.
std::vector<checkpoints::PlannedTensor> planned_mean(const Part& part,
                                                     const std::vector<Input>& inputs,
                                                     const Adapters& adapters,
                                                     std::string_view dtype);

/// The text of its adapter_config.json.
std::string mean_config_text(const Part& part,
                             const std::vector<Input>& inputs,
                             const Adapters& adapters);

/// Bytes of the inputs' tensors that the writer's shards of a mean need.
std::int64_t bytes_to_read(const Part& part,
                           const std::vector<Input>& inputs,
                           const Adapters& adapters,
                           const checkpoints::ShardWriter& writer);

/// Writes the mean block by block, where it is not there yet, from bytes that the progress expects
/// already. Sums are float64, rounded once. Memory: threads x block x 24 bytes.
void write_mean(const Part& part,
                const std::vector<Input>& inputs,
                const Adapters& adapters,
                const PassOptions& options,
                checkpoints::ShardWriter& writer);

}  // namespace dimred::merge
