#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "merge/adapters.h"

// The mean of adapters in the checkpoint that they were trained on: W + sum c_i s_i B_i A_i.
namespace dimred::merge {

/// Changes by adapters to a tensor of the base: places of tensors of the first adapter.
struct FoldedTensor {
  static constexpr std::size_t none = -1;
  std::size_t a = none, b = none;  // the factors of its update
  std::size_t bias = none;         // of B, added to a bias of the base
  std::size_t instead = none;      // of a module that was trained whole, in the place of the base's
  bool transposed = false;         // the base's is [in, out]
};

/// Returns the adapters' changes to each tensor of the base. Throws std::invalid_argument, naming
/// it, for what the base lacks, has in another shape, or has as codes of a quantisation.
std::vector<FoldedTensor> fold_plan(const std::vector<Input>& inputs,
                                    const Adapters& adapters,
                                    const Input& base);

/// Part::addend of the base's tensors; refers to its arguments. Memory: for each thread 8 bytes for
/// each element of a module's factors.
std::function<Addend(std::size_t)> addend_of(const Part& part,
                                             const std::vector<Input>& inputs,
                                             const Adapters& adapters,
                                             const std::vector<FoldedTensor>& plan);

}  // namespace dimred::merge
