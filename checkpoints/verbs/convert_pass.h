#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "checkpoints/output.h"
#include "checkpoints/shard_plan.h"
#include "checkpoints/verbs/adapter.h"
#include "checkpoints/verbs/convert.h"

namespace dimred::verbs {

/// The plan of a conversion, known before a value is read.
struct ConvertWork {
  checkpoints::Checkpoint source;
  std::optional<Adapter> adapter;
  checkpoints::LoraFolds folds;  // of the adapter
  checkpoints::ShardPlan plan;
  std::vector<std::filesystem::path> side_files;
  bool one_file = false;
};

struct ConvertedBytes {
  std::vector<std::string> digests;   // XXH3-128 of each tensor of the source, as it is written
  std::vector<std::size_t> vanished;  // tensors of the source that all became 0
  std::int64_t read = 0;              // of tensors
  std::int64_t written = 0;           // of shards
};

/// Writes all shards of the plan, block by block; shards recorded in `output` stay as they are, and
/// are not counted. A tensor of its own type is copied; another one is summed in float64 and
/// rounded once. Memory: threads x block x 24 bytes, and the factors of the updates that are
/// folded. Throws std::invalid_argument for a value beyond the range of its new type;
/// std::runtime_error for I/O errors, and where a file has been written meanwhile.
ConvertedBytes write_converted(const ConvertWork& work,
                               const ConversionOptions& options,
                               const checkpoints::Output& output);

}  // namespace dimred::verbs
