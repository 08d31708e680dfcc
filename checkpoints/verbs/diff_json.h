#pragma once

#include <string>

#include "checkpoints/verbs/diff.h"

namespace dimred::verbs {

/// Returns {same, only_a, only_b, tensors: [{name, status, dtype, shape, elements, different,
/// max_abs, max_rel, max_ulp, cosine}]} in one line. Names in only_a and only_b are those of their
/// checkpoint, `name` is B's. dtype and shape are lists of A's and B's where they differ; what is
/// not finite or does not apply is null.
std::string to_json(const Difference& difference);

}  // namespace dimred::verbs
