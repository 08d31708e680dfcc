#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

#include "layout/layout.h"
#include "layout/shard.h"

namespace dimred::optimizers {

/// Sums a float64 vector over ranks, in place.
using SumOverRanks = std::function<void(torch::Tensor&)>;

/// Columns of a vector that are one parameter's, with the padding behind it.
struct Segment {
  layout::ColumnRange columns;
  bool decay = false;     // weight decay applies
  std::int64_t rows = 1;  // output channels of a weight of 2 or more dimensions; else 1
  std::int64_t size = 0;  // columns without the padding
  bool sharded = false;   // other ranks have the parameter's other rows
};

/// The parameters of the whole memory vector [memory_size], in order.
std::vector<Segment> segments_of(const layout::Layout& layout);

/// Maximal runs of columns with equal weight decay.
struct DecayRange {
  layout::ColumnRange columns;
  bool decay = false;
};
std::vector<DecayRange> decay_ranges(const std::vector<Segment>& segments);
std::vector<DecayRange> decay_ranges(const layout::Layout& layout);

}  // namespace dimred::optimizers
