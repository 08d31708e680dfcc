#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "checkpoints/stored_tensor.h"

namespace dimred::checkpoints {

/// Places of tensors that lie in the same place of a file, as tied weights do: at least two a
/// group, ascending.
using TiedGroups = std::vector<std::vector<std::size_t>>;

TiedGroups tied_groups(std::span<const StoredTensor> tensors);

/// Returns the group that a tensor is in, or the tensor alone.
std::vector<std::size_t> tied_with(const TiedGroups& groups, std::size_t tensor);

}  // namespace dimred::checkpoints
