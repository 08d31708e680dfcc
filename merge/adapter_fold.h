#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "checkpoints/lora_fold.h"
#include "merge/adapters.h"

// The mean of adapters in the checkpoint that they were trained on: W + sum c_i s_i B_i A_i.
namespace dimred::merge {

/// Changes by adapters to the base, as places of tensors of the first one. Throws as
/// checkpoints::lora_folds(), and std::invalid_argument where adapters differ in fan_in_fan_out, or
/// an update changes what is no weight that is summed.
checkpoints::LoraFolds fold_plan(const std::vector<Input>& inputs,
                                 const Adapters& adapters,
                                 Input& base);

/// Part::addend of the base's tensors; refers to its arguments. Memory: for each thread 8 bytes for
/// each element of a module's factors, and 16 for each of a block.
std::function<Addend(std::size_t)> addend_of(const Part& part,
                                             const std::vector<Input>& inputs,
                                             const Adapters& adapters,
                                             const checkpoints::LoraFolds& plan);

/// Returns what takes the place of a tensor of the base that is not summed: the tensor of the
/// adapter that the part copies from. All arguments have to outlive it.
std::function<Replacement(std::size_t tensor)> replacement_of(const Part& part,
                                                              const std::vector<Input>& inputs,
                                                              const Adapters& adapters,
                                                              const checkpoints::LoraFolds& plan,
                                                              const Input& base);

}  // namespace dimred::merge
