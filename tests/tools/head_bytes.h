#pragma once

#include <cstdint>

#include "distributed/volume.h"

// Bytes that one rank sends for a class-sharded last layer, exactly as they are counted.
namespace dimred::bytes_sent {

struct HeadShape {
  std::int64_t ranks = 1;
  std::int64_t classes = 2;       // C >= ranks
  std::int64_t embedding = 512;   // D
  std::int64_t batch = 1;         // N samples of all ranks
  std::int64_t number_bytes = 4;  // of a feature, weight or gradient
};

/// Returns the bytes that a rank with `own` of the batch's samples sends in one step of
/// engine/heads/class_sharded_softmax.cpp: two counts a rank, features and labels of all, two
/// float64 maxima and a float64 sum a sample and one number more, and the features' gradients to
/// their owners. Without gradients (a trial of a line search) these last are left out.
inline std::int64_t head_bytes(const HeadShape& head,
                               std::int64_t own,
                               bool with_gradients = true) {
  const auto row = head.embedding * head.number_bytes;
  const auto doubles = [&](std::int64_t count) {
    return volume::all_reduce_bytes(8 * count, head.ranks);
  };
  return doubles(2 * head.ranks) + volume::all_gather_bytes(own * row, head.ranks) +
         volume::all_gather_bytes(8 * own, head.ranks) + doubles(2 * head.batch) +
         doubles(head.batch + 1) +
         (with_gradients ? volume::reduce_scatter_bytes(head.batch * row, own * row) : 0);
}

}  // namespace dimred::bytes_sent
