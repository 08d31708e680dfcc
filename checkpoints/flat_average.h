#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/stored_tensor.h"

// Averaged weights beside raw ones in one list of names: ema.NAME beside NAME or model.NAME.
namespace dimred::checkpoints {

/// Names of averaged weights in a list, and of the raw ones that they are averages of.
struct FlatAverage {
  std::string averaged, raw;  // what names begin with: "ema." and "model."; `raw` may be empty
};

/// Returns each beginning of names that says average (ema, swa, avg, average, averaged, polyak)
/// whose tensors, but for single numbers, all have a raw one of the same shape under one other
/// beginning.
std::vector<FlatAverage> flat_averages(const std::vector<StoredTensor>& tensors);

/// Keeps the raw weights, or for `averaged` the averages, under the names of the raw ones, and what
/// has no average.
void keep_one_kind(std::vector<StoredTensor>& tensors, const FlatAverage& both, bool averaged);

}  // namespace dimred::checkpoints
