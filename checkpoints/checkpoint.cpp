#include "checkpoints/checkpoint.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "checkpoints/artifact.h"
#include "checkpoints/read_pickle.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/list_files.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

using Shards = std::map<std::string, std::set<std::string>>;  // file -> names of tensors

Shards shards_of(const fs::path& index) {
  Shards shards;
  try {
    const auto text = InputFile(index).text(table_json_limits.bytes);
    const auto json = parse_json(text, index.string(), table_json_limits);
    for (const auto& [tensor, shard] : json.at("weight_map").items())
      shards[shard.get<std::string>()].insert(tensor);
  } catch (const nlohmann::json::exception& error) {
    fail_environment(
        "[checkpoints] '{}' is damaged: it has no weight_map ({})", index, error.what());
  }
  return shards;
}

/// Names the first tensor that one of the two has alone.
void require_listed(const fs::path& index,
                    const std::string& shard,
                    const std::set<std::string>& listed,
                    const std::vector<StoredTensor>& held) {
  std::set<std::string> names;
  for (const auto& tensor : held) names.insert(tensor.name);
  for (const auto& name : listed)
    require_environment(names.contains(name),
                        "[checkpoints] '{}' lists \"{}\" in the shard {}, which does not have it",
                        index,
                        name,
                        shard);
  for (const auto& name : names)
    require_environment(listed.contains(name),
                        "[checkpoints] '{}' does not list \"{}\", which the shard {} has",
                        index,
                        name,
                        shard);
}

Checkpoint read_file(const fs::path& file) {
  Checkpoint checkpoint{.files = {file}, .guard = FileGuard({file})};
  checkpoint.tensors = {read_tensor_table(file)};
  return checkpoint;
}

Checkpoint read_shards(const fs::path& index) {
  Checkpoint checkpoint{.guard = FileGuard({index})};
  for (const auto& [shard, names] : shards_of(index)) {
    const auto file = index.parent_path() / shard;
    require(fs::path(shard).filename() == shard && fs::exists(file),
            "[checkpoints] '{}' names the shard '{}', which is not beside it",
            index,
            shard);
    checkpoint.files.push_back(file);
    checkpoint.guard.add(file);
    require_listed(index, shard, names, checkpoint.tensors.emplace_back(read_tensor_table(file)));
  }
  return checkpoint;
}

Checkpoint read_distributed(const fs::path& metadata) {
  constexpr std::string_view scope = "torch.distributed.checkpoint";
  Checkpoint checkpoint;
  checkpoint.guard.add(metadata);
  for (const auto& file : list_files(metadata.parent_path(), {".distcp"}))
    checkpoint.guard.add(file);
  std::map<std::string, std::size_t> places;
  auto& tensors = checkpoint.tensors.emplace_back();
  for (const auto& entry : read_pickle_json("distributed", scope, metadata)) {
    auto& tensor = tensors.emplace_back();
    tensor.name = entry.at(0);
    tensor.dtype = entry.at(1);
    entry.at(2).get_to(tensor.shape);
    for (const auto& part : entry.at(3)) {
      const auto [place, fresh] = places.emplace(part.at(4), places.size());
      if (fresh) checkpoint.files.push_back(metadata.parent_path() / place->first);
      auto& box =
          tensor.boxes.emplace_back(box_of(tensor.shape, part.at(0), part.at(1), part.at(2)));
      part.at(3).get_to(box.offset);
      box.file = place->second;
    }
  }
  return checkpoint;
}

}  // namespace

Checkpoint read_checkpoint(const fs::path& path) {
  const auto kind = look(path).kind;
  auto checkpoint = kind == ArtifactKind::distributed ? read_distributed(path)
                    : kind == ArtifactKind::index     ? read_shards(path)
                                                      : read_file(path);
  decide_roles(checkpoint.tensors);
  return checkpoint;
}

}  // namespace dimred::checkpoints
