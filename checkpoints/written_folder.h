#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "checkpoints/output.h"
#include "checkpoints/shard_plan.h"

namespace dimred::checkpoints {

/// A checkpoint's folder that is written: shards, their index, side files and a record of what was
/// done.
struct WrittenFolder {
  std::filesystem::path folder;  // within the output; empty: the output itself
  const ShardPlan* shards = nullptr;
  std::vector<std::filesystem::path> side_files;  // names
  std::string record;                             // the name of its file: "merge.json"

  /// Returns the names of all its files within the output, as OutputPlan has them.
  std::vector<std::filesystem::path> names() const;

  /// Writes what lies beside shards and side files: the index, where the shards have one, and the
  /// record with its digest.
  void write_index_and_record(const Output& output, nlohmann::ordered_json record_json) const;
};

}  // namespace dimred::checkpoints
