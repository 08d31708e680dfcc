#include "checkpoints/checkpoint.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

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
    const auto json = parse_json(InputFile(index).text(JsonLimits{}.bytes), index.string());
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

bool is_distributed(const fs::path& path) { return path.filename() == ".metadata"; }

fs::path whole_or_index(const fs::path& index) {
  auto whole = index.string();
  whole.resize(whole.size() - index_ending.size());
  return fs::exists(whole) ? fs::path(whole) : index;
}

fs::path weights_in(const fs::path& folder) {
  for (const auto* name : {"model.safetensors",
                           "pytorch_model.bin",
                           "adapter_model.safetensors",
                           "adapter_model.bin"}) {
    const auto index = folder / (name + std::string(index_ending));
    if (const auto weights = whole_or_index(index); fs::exists(weights)) return weights;
  }
  if (fs::is_regular_file(folder / ".metadata")) return folder / ".metadata";
  return {};
}

void require_one_meaning(const fs::path& folder, std::string_view scope) {
  for (const auto& item : fs::directory_iterator(folder)) {
    require(!item.is_directory() || is_unfinished(item) || weights_in(item).empty(),
            "[{}] '{}' has weights of its own and folders with others, such as '{}'; name the "
            "checkpoints, or a list of them",
            scope,
            folder,
            item.path().filename());
  }
}

Checkpoint read_checkpoint(const fs::path& path) {
  if (is_distributed(path)) return read_distributed(path);
  Checkpoint checkpoint;
  checkpoint.guard.add(path);
  if (path.extension() != ".json") {
    checkpoint.files = {path};
    checkpoint.tensors = {read_tensor_table(path)};
    return checkpoint;
  }
  for (const auto& [shard, names] : shards_of(path)) {
    const auto file = path.parent_path() / shard;
    require(fs::path(shard).filename() == shard && fs::exists(file),
            "[checkpoints] '{}' names the shard '{}', which is not beside it",
            path,
            shard);
    checkpoint.files.push_back(file);
    checkpoint.guard.add(file);
    require_listed(path, shard, names, checkpoint.tensors.emplace_back(read_tensor_table(file)));
  }
  return checkpoint;
}

}  // namespace dimred::checkpoints
