#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoints/stored_tensor.h"

// Averaged weights beside raw ones in one list of names: ema.NAME beside NAME or model.NAME.
namespace dimred::checkpoints {

/// Names of averaged weights in a list, and of the raw ones that they are averages of.
struct FlatAverage {
  std::string averaged, raw;  // for a person: "ema.*" and "model.*", "*_ema" and "*"
  std::map<std::string, std::string> raw_names;  // of each average; empty: a number without one
};

/// Returns each beginning of names that says average (ema, swa, avg, average, averaged, polyak,
/// shadow) whose tensors, but for single numbers, all have a raw one of the same shape under one
/// other beginning; also where "module." or "shadow." stands behind the average's, or "module."
/// behind the raw one's, and where the averages' names have lost their dots (LitEma of Stable
/// Diffusion). And returns each such end of names, as _ema, beside the names without it. Networks
/// have layers that are called avg or shadow, and buffers as embed_avg: at an end, and for words
/// but ema, swa and polyak, most of the file's other tensors need an average, too. Cost: O(n log n)
/// for the names, and O(log n) for each average and each other beginning; of more than 64 kinds
/// beside one another, which are layers, none is an average.
std::vector<FlatAverage> flat_averages(const std::vector<StoredTensor>& tensors);

/// Returns beginnings and ends of names with the words ema, swa or polyak, each of at least a
/// quarter of the tensors. The tensors are to be without the averages that flat_averages() pairs.
std::vector<std::string> unpaired_averages(const std::vector<StoredTensor>& tensors);

/// Keeps the raw weights, or for `averaged` the averages, under the names of the raw ones, and what
/// has no average.
void keep_one_kind(std::vector<StoredTensor>& tensors, const FlatAverage& both, bool averaged);

}  // namespace dimred::checkpoints
