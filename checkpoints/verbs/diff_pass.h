#pragma once

#include <utility>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "checkpoints/verbs/compare.h"
#include "checkpoints/verbs/diff.h"

namespace dimred::verbs {

/// Tensors of A and their partners in B.
using TensorPairs =
    std::vector<std::pair<const checkpoints::StoredTensor*, const checkpoints::StoredTensor*>>;

/// Reads pairs of one shape and of comparable types, both sides in step and in A's order, and
/// returns the distance of each. It does not depend on the number of threads.
std::vector<Distance> distances_of(const checkpoints::Checkpoint& a,
                                   const checkpoints::Checkpoint& b,
                                   const TensorPairs& pairs,
                                   const DiffOptions& options);

}  // namespace dimred::verbs
