#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "engine/setup.h"

// Vectors as files have them: the elements of all ranks, in file order.
namespace dimred::engine {

/// A vector [memory_size] in file order [M] on rank 0, on the host; empty on the others. All ranks
/// call it. Cost: nothing is sent where nothing is sharded; else the sharded columns, to all, 16 MB
/// a rank at a time.
std::vector<float> full_vector(const Setup& setup, const torch::Tensor& memory);

/// True on every rank when the predicate holds on all: what is sharded, one rank alone can see.
bool on_all_ranks(const Setup& setup, bool holds);

/// Digest of the weights that every rank has alike.
std::string replicated_digest(const Setup& setup);

}  // namespace dimred::engine
