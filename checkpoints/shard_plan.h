#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/checkpoint.h"

// The safetensors files of a checkpoint that is to be written, each laid out before its first byte
// is.
namespace dimred::checkpoints {

struct PlannedTensor {
  std::size_t index = 0;  // of Checkpoint::tensors
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::size_t group = 0;  // tensors of one group lie in one shard, where no size is given
  std::int64_t bytes = 0;
  std::int64_t offset = 0;  // bytes from the start of the shard
};

struct Shard {
  std::string name;  // of the file
  std::string head;  // length and header of the safetensors file
  std::vector<PlannedTensor> tensors;
  std::int64_t bytes = 0;  // of the file
};

struct ShardPlan {
  std::vector<Shard> shards;
  std::string index_name;  // empty: one file, without an index
  std::string index;       // the JSON text
};

/// Whether sums of the tensor mean something: a weight of float64, float32, bfloat16 or float16.
bool is_summed(const StoredTensor& tensor);

/// Bytes that a tensor of this type and shape has.
std::int64_t bytes_of(std::string_view dtype, const std::vector<std::int64_t>& shape);

/// Throws std::invalid_argument for codes, whose scales would be rounded to `dtype` (empty: none).
void require_unquantised(const StoredTensor& tensor, std::string_view dtype);

/// All tensors of the checkpoint, in groups by file; is_summed() ones become `dtype` (empty: as
/// they are). Throws as require_unquantised() does.
std::vector<PlannedTensor> planned_tensors(const Checkpoint& like, std::string_view dtype);

/// Lays the tensors out in shards, in their order, named as those of `like`. `shard_size`: a new
/// shard before this number of bytes would be passed, a larger tensor alone; 0: one shard a group.
/// `metadata`: of each shard's header, beside the format.
ShardPlan plan_shards(std::vector<PlannedTensor> tensors,
                      const Checkpoint& like,
                      std::int64_t shard_size,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace dimred::checkpoints
