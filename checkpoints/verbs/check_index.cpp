#include "checkpoints/verbs/check_index.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/artifact.h"
#include "checkpoints/file_names.h"
#include "checkpoints/tensor_table.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/list_files.h"
#include "support/printable.h"

namespace dimred::verbs {
namespace {

namespace fs = std::filesystem;

using checkpoints::StoredTensor;
using TensorNames = std::set<std::string>;

struct ShardIndex {
  std::map<std::string, TensorNames> shards;  // file -> tensors that it should have
  nlohmann::json total_size;
};

ShardIndex read_shard_index(const fs::path& file, std::vector<std::string>& faults) {
  ShardIndex index;
  const auto text = InputFile(file).text(table_json_limits.bytes);
  const auto json = parse_json(text, file.filename().string(), table_json_limits);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object() || map->empty()) {
    faults.push_back(formatted(
        "{} lists no tensors: the index needs a weight_map from tensor names to shard files",
        file.filename()));
    return index;
  }
  for (const auto& [tensor, shard] : map->items()) {
    const bool beside = shard.is_string() && !shard.get_ref<const std::string&>().empty() &&
                        fs::path(shard.get<std::string>()).filename() == shard.get<std::string>();
    if (beside)
      index.shards[shard.get<std::string>()].insert(tensor);
    else
      faults.push_back(
          formatted("{} lists \"{}\" in {}, but this is not a file name in the same folder",
                    file.filename(),
                    printable(tensor),
                    printable(shard.dump())));
  }
  if (const auto about = json.find("metadata"); about != json.end() && about->is_object())
    index.total_size = about->value("total_size", nlohmann::json());
  return index;
}

/// The files beside the index that are called as its shards: model-00001-of-00002.safetensors
/// beside model.safetensors.index.json.
std::vector<fs::path> shards_by_name(const fs::path& index) {
  auto whole = index.filename().string();
  if (!whole.ends_with(checkpoints::index_ending)) return {};
  whole.resize(whole.size() - checkpoints::index_ending.size());
  const auto stem = fs::path(whole).stem().string();
  auto files =
      list_files(fs::absolute(index).parent_path(), {fs::path(whole).extension().string()});
  std::erase_if(files, [&](const fs::path& file) {
    const auto name = file.filename().string();
    return !name.starts_with(stem + "-") || name.find("-of-") == name.npos;
  });
  return files;
}

void compare_names(const std::string& shard,
                   const TensorNames& listed,
                   std::span<const StoredTensor> held,
                   std::vector<std::string>& faults) {
  TensorNames names;
  for (const auto& tensor : held) names.insert(tensor.name);
  for (const auto& name : listed)
    if (!names.contains(name))
      faults.push_back(formatted("the index lists \"{}\" in {}, but this shard lacks the tensor",
                                 printable(name),
                                 printable(shard)));
  for (const auto& name : names)
    if (!listed.contains(name))
      faults.push_back(formatted("the index does not list the tensor \"{}\" of the shard {}",
                                 printable(name),
                                 printable(shard)));
}

/// Returns whether all shards were read.
bool read_listed_shards(CheckedIndex& result, const ShardIndex& index, const fs::path& folder) {
  auto& [checkpoint, faults] = result;
  bool all = true;
  for (const auto& [shard, names] : index.shards) {
    const auto first = checkpoint.tensors.size();
    const auto file = folder / shard;
    try {
      checkpoint.guard.add(file);
      checkpoints::add_file(checkpoint, file, checkpoints::read_tensor_table(file));
    } catch (const std::exception& error) {
      const bool there = fs::exists(file);
      faults.push_back(there ? std::string(error.what())
                             : formatted("the shard {} is missing", printable(shard)));
      all = false;
      continue;
    }
    compare_names(shard, names, std::span(checkpoint.tensors).subspan(first), faults);
  }
  return all;
}

/// Two shards that hold one name: the first one's tensor stays.
void drop_repeated(CheckedIndex& result) {
  auto& [checkpoint, faults] = result;
  TensorNames names;
  std::erase_if(checkpoint.tensors, [&](const StoredTensor& tensor) {
    if (names.insert(tensor.name).second) return false;
    faults.push_back(formatted("several shards have \"{}\"", printable(tensor.name)));
    return true;
  });
}

void compare_size(const nlohmann::json& said,
                  const std::vector<StoredTensor>& tensors,
                  std::vector<std::string>& faults) {
  std::int64_t bytes = 0, distinct = 0;  // writers count tied tensors once or under each name
  std::set<std::vector<checkpoints::StoredBox>> places;
  for (const auto& tensor : tensors) {
    if (tensor.boxes.empty()) continue;
    bytes += tensor.bytes();
    if (places.insert(tensor.boxes).second) distinct += tensor.bytes();
  }
  if (said.is_null() || said == bytes || said == distinct) return;
  faults.push_back(formatted(
      "the index has total_size {}, but the tensors have {} bytes", printable(said.dump()), bytes));
}

}  // namespace

CheckedIndex check_index(const fs::path& file) {
  CheckedIndex result;
  auto& [checkpoint, faults] = result;
  checkpoint.path = checkpoints::name_of(file);
  checkpoint.weights = file;
  checkpoint.format = "shards";
  checkpoint.guard.add(file);
  ShardIndex index;
  try {
    index = read_shard_index(file, faults);
  } catch (const std::runtime_error& error) {
    faults.emplace_back(error.what());
  }
  const bool all = read_listed_shards(result, index, file.parent_path());
  for (const auto& shard : shards_by_name(file))
    if (!index.shards.contains(shard.filename().string()))
      faults.push_back(formatted("the index does not list the shard {}", shard.filename()));
  if (all) compare_size(index.total_size, checkpoint.tensors, faults);
  drop_repeated(result);
  checkpoints::decide_roles(checkpoint.tensors);
  checkpoints::leave_out_training_state(checkpoint);
  return result;
}

}  // namespace dimred::verbs
