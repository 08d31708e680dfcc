#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "merge/inputs.h"

// What a merge writes: the shards of a checkpoint, each laid out before its first byte is written.
namespace dimred::merge {

struct PlannedTensor {
  std::size_t index = 0;    // of Input::tensors of the checkpoint that it is laid out like
  std::string dtype;        // in the output
  std::int64_t offset = 0;  // bytes from the start of the shard
  std::int64_t bytes = 0;
};

struct Shard {
  std::string name;  // of the file
  std::string head;  // length and header of the safetensors file
  std::vector<PlannedTensor> tensors;
  std::int64_t bytes = 0;  // of the file
};

struct Plan {
  std::vector<Shard> shards;
  std::string index_name;  // empty: one file, without an index
  std::string index;       // the JSON text
};

/// The shards of `like`, in its order, with its names; what is summed as `dtype` (empty: as it
/// is). `shard_size`: a new shard before this number of bytes would be passed; 0: as they are.
Plan plan_output(const Input& like, std::string_view dtype, std::int64_t shard_size);

}  // namespace dimred::merge
