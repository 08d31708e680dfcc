#include "checkpoints/written_folder.h"

#include <nlohmann/json.hpp>

#include "checkpoints/sealed_json.h"
#include "support/atomic_file.h"

namespace dimred::checkpoints {

namespace fs = std::filesystem;

std::vector<fs::path> WrittenFolder::names() const {
  std::vector<fs::path> names;
  for (const auto& shard : shards->shards) names.push_back(folder / shard.name);
  if (!shards->index_name.empty()) names.push_back(folder / shards->index_name);
  for (const auto& name : side_files) names.push_back(folder / name);
  names.push_back(folder / record);
  return names;
}

void WrittenFolder::write_index_and_record(const Output& output,
                                           nlohmann::ordered_json record_json) const {
  if (!shards->index_name.empty())
    write_file_atomically(output.path(folder / shards->index_name), shards->index);
  add_digest(record_json);
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  write_file_atomically(output.path(folder / record),
                        record_json.dump(1, ' ', false, replace) + "\n");
}

}  // namespace dimred::checkpoints
