#include "checkpoints/checkpoint.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/artifact.h"
#include "checkpoints/deepspeed_ranks.h"
#include "checkpoints/fsdp_ranks.h"
#include "checkpoints/part_names.h"
#include "checkpoints/rank_files.h"
#include "checkpoints/read_pickle.h"
#include "checkpoints/run_config.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/series.h"
#include "checkpoints/shape.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "checkpoints/tensor_table.h"
#include "checkpoints/weights_format.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/file_limit.h"
#include "support/json.h"
#include "support/list_files.h"
#include "support/printable.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

using Shards = std::map<std::string, std::set<std::string>>;  // file -> names of tensors

Shards shards_of(const fs::path& index) {
  const auto text = InputFile(index).text(table_json_limits.bytes);
  const auto json = parse_json(text, index.string(), table_json_limits);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  require_environment(map != json.end() && map->is_object() && !map->empty(),
                      "[checkpoints] '{}' is damaged: it needs a weight_map that names tensors and "
                      "their shards",
                      index);
  Shards shards;
  for (const auto& [tensor, shard] : map->items()) {
    require_environment(shard.is_string(),
                        "[checkpoints] '{}' is damaged: its shard for \"{}\" is not a file name",
                        index,
                        printable(tensor));
    shards[shard.get<std::string>()].insert(tensor);
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

/// The tensors of one more file of the checkpoint.
void add_file(Checkpoint& checkpoint, const fs::path& file, std::vector<StoredTensor> tensors) {
  for (auto& tensor : tensors) {
    for (auto& box : tensor.boxes) box.file += checkpoint.files.size();
    checkpoint.tensors.push_back(std::move(tensor));
  }
  checkpoint.files.push_back(file);
}

std::string_view format_name(WeightsFormat format) {
  if (format == WeightsFormat::safetensors) return "safetensors";
  return format == WeightsFormat::pytorch ? "PyTorch" : "MindSpore";
}

void require_no_choice(const fs::path& path, const OpenOptions& options) {
  require(options.take != "averaged",
          "[{}] needs a PyTorch file with averaged weights, received '{}', which holds one network",
          options.scope,
          path);
}

void read_file(Checkpoint& checkpoint, const fs::path& file, const OpenOptions& options) {
  checkpoint.guard.add(file);
  const bool as_saved = options.as_saved;
  const bool by_name = !as_saved && file.extension() == ".safetensors";
  const auto format = by_name ? WeightsFormat::safetensors : weights_format(file);
  checkpoint.format = format_name(format);
  if (format == WeightsFormat::pytorch) {
    auto tensors = read_pytorch_table(file, options.take, checkpoint.remarks);
    return add_file(checkpoint, file, std::move(tensors));
  }
  require_no_choice(file, options);
  add_file(checkpoint, file, as_saved ? read_tensor_table(file, format) : read_tensor_table(file));
}

void read_shards(Checkpoint& checkpoint, const fs::path& index) {
  checkpoint.guard.add(index);
  checkpoint.format = "shards";
  for (const auto& [shard, names] : shards_of(index)) {
    const auto file = index.parent_path() / shard;
    require(fs::path(shard).filename() == shard && fs::exists(file),
            "[checkpoints] '{}' names the shard '{}', which is not beside it",
            index,
            shard);
    checkpoint.guard.add(file);
    auto tensors = read_tensor_table(file);
    require_listed(index, shard, names, tensors);
    add_file(checkpoint, file, std::move(tensors));
  }
}

void read_distributed(Checkpoint& checkpoint, const fs::path& metadata) {
  constexpr std::string_view scope = "torch.distributed.checkpoint";
  checkpoint.format = scope;
  checkpoint.across_files = true;
  checkpoint.guard.add(metadata);
  for (const auto& file : list_files(metadata.parent_path(), {".distcp"}))
    checkpoint.guard.add(file);
  std::map<std::string, std::size_t> places;
  for (const auto& entry : read_pickle_json("distributed", scope, metadata)) {
    auto& tensor = checkpoint.tensors.emplace_back();
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
}

/// Moves the names of training state from `tensors` to `left_out`.
void leave_out_training_state(Checkpoint& checkpoint) {
  std::erase_if(checkpoint.tensors, [&](const StoredTensor& tensor) {
    if (is_left_out(tensor.role)) checkpoint.left_out.push_back(tensor.name);
    return is_left_out(tensor.role);
  });
}

/// Values of a table's rows, which lie one behind the other in a file.
struct Extent {
  std::size_t file = 0;     // of Checkpoint::files
  std::int64_t offset = 0;  // bytes from the start of the file
  std::int64_t count = 0;   // elements
};

void add_rows(Checkpoint& checkpoint,
              const nlohmann::json& rows,
              const std::string& dtype,
              const Extent& extent) {
  const std::int64_t unit = bits_of(dtype) / 8;
  std::int64_t begin = 0;
  for (const auto& row : rows) {
    StoredTensor tensor{.name = row.at("name"), .dtype = dtype, .shape = row.at("shape")};
    const auto elements = product(tensor.shape);
    require_environment(elements && *elements <= extent.count - begin,
                        "[checkpoints] '{}' is damaged: \"{}\" has more values in its layout than "
                        "the {} of its file",
                        checkpoint.path,
                        printable(tensor.name),
                        extent.count);
    tensor.boxes = {run_of(0, *elements, extent.offset + begin * unit)};
    tensor.boxes.front().file = extent.file;
    tensor.role = role_of({tensor.name, dtype});
    checkpoint.tensors.push_back(std::move(tensor));
    begin += *elements;
  }
  require_environment(begin == extent.count,
                      "[checkpoints] '{}' has {} values, but its tensors need {}: it is damaged, "
                      "or dimred did not write it",
                      checkpoint.path,
                      extent.count,
                      begin);
}

/// The tensors of the table that snapshots and states carry.
void add_layout(Checkpoint& checkpoint,
                const std::string& layout_json,
                const Extent& parameters,
                const Extent& buffers,
                const Extent& counters) {
  const auto table =
      parse_json(layout_json, "[checkpoints] the layout of a snapshot", table_json_limits);
  try {
    add_rows(checkpoint, table.at("parameters"), "F32", parameters);
    add_rows(checkpoint, table.value("buffers", nlohmann::json()), "F32", buffers);
    add_rows(checkpoint, table.value("counters", nlohmann::json()), "I64", counters);
  } catch (const nlohmann::json::exception& error) {
    fail_environment("[checkpoints] '{}' is damaged: its layout is not a table of tensors ({})",
                     checkpoint.path,
                     error.what());
  }
  checkpoint.frozen = frozen_part_of(checkpoint.path, layout_json);
  if (!checkpoint.frozen) return;
  auto tensors = checkpoint.frozen->tensors;
  for (auto& tensor : tensors) {
    tensor.role = role_of({tensor.name, tensor.dtype});
    tensor.shared = true;
  }
  add_file(checkpoint, checkpoint.frozen->file, std::move(tensors));
}

void guard_frozen_part(Checkpoint& checkpoint) {
  if (const auto frozen = frozen_file_of(checkpoint.path); !frozen.empty())
    checkpoint.guard.add(frozen);
}

void read_snapshot_tensors(Checkpoint& checkpoint) {
  const auto& file = checkpoint.weights;
  checkpoint.format = "snapshot";
  checkpoint.guard.add(file);
  guard_frozen_part(checkpoint);
  const auto info = verify_snapshot(file);
  checkpoint.run = identity_of(info.run_json);
  checkpoint.files = {file};
  add_layout(checkpoint,
             info.layout_json,
             {0, info.weights_offset, info.parameters},
             {0, info.buffers_offset, info.buffer_count},
             {0, info.counters_offset, info.counter_count});
}

void read_state_tensors(Checkpoint& checkpoint) {
  const auto folder = checkpoint.weights;
  checkpoint.format = "state";
  checkpoint.files = {folder / "weights.f32", folder / "buffers.f32", folder / "counters.i64"};
  checkpoint.guard.add(folder / "state.json");
  for (const auto& file : checkpoint.files) checkpoint.guard.add(file);
  guard_frozen_part(checkpoint);
  // Keeps nothing, and compares all digests.
  const auto state = read_state(folder, [](const std::string&, const nlohmann::json&) {
    return ColumnRanges(std::in_place);
  });
  const auto values = [](const fs::path& file) {
    constexpr std::int64_t float_bytes = sizeof(float), count_bytes = sizeof(std::int64_t);
    const auto unit = file.extension() == ".f32" ? float_bytes : count_bytes;
    return fs::exists(file) ? static_cast<std::int64_t>(fs::file_size(file)) / unit : 0;
  };
  checkpoint.run = identity_of(state.scalars.dump());
  const auto layout = state.scalars.find("layout");
  require_environment(layout != state.scalars.end(),
                      "[checkpoints] '{}' has no layout, so its tensors are unknown",
                      folder);
  add_layout(checkpoint,
             layout->dump(),
             {0, 0, values(checkpoint.files[0])},
             {1, 0, values(checkpoint.files[1])},
             {2, 0, values(checkpoint.files[2])});
}

/// Returns the file or state of a run's weights: its end, unless the run went on from there.
fs::path weights_of_run(const fs::path& run, std::string_view scope) {
  auto end = run / "final.h5";
  const auto states = states_of(run);
  if (fs::exists(end)) {
    if (states.empty()) return end;
    const auto scalars = read_state_header(states.back()).at("scalars");
    if (count_of(scalars, "step") <= read_snapshot_info(end).step) return end;
  }
  require(!states.empty(), "[{}] the run '{}' has no state yet, and no final.h5", scope, run);
  return states.back();
}

[[noreturn]] void refuse_series(const fs::path& path, std::string_view scope) {
  auto series = members({path}, scope);
  if (!series.counted) sort_by_step(series);
  refuse(
      "[{}] '{}' holds {}; give one of them, such as the newest, '{}', or merge them with dimred "
      "merge",
      scope,
      path,
      counted(std::ssize(series.members), "checkpoint"),
      series.members.back().path);
}

[[noreturn]] void refuse_artifact(const Artifact& artifact, std::string_view scope) {
  switch (artifact.kind) {
    case ArtifactKind::missing:
      refuse("[{}] no such file or folder: '{}'", scope, artifact.path);
    case ArtifactKind::matrix:
      refuse("[{}] '{}' is a matrix, and its columns have no names; give a checkpoint",
             scope,
             artifact.path);
    case ArtifactKind::part:
      require_whole(artifact.path, scope);
      [[fallthrough]];
    default:
      refuse(
          "[{}] needs a checkpoint, received '{}', a file of another kind", scope, artifact.path);
  }
}

}  // namespace

fs::path Checkpoint::folder() const {
  return !in_folder() ? fs::path() : rank_file(weights) ? side_folder_of(weights) : path;
}

bool is_about_tensors(std::string_view remark) {
  constexpr std::array<std::string_view, 3> beginnings{
      "names are dotted", "another network (", "other networks ("};
  return std::ranges::any_of(
      beginnings, [&](std::string_view beginning) { return remark.starts_with(beginning); });
}

Checkpoint read_checkpoint(const fs::path& weights, const OpenOptions& options) {
  Checkpoint checkpoint{.path = weights, .weights = weights};
  const auto kind = look(weights).kind;
  if (kind == ArtifactKind::snapshot || kind == ArtifactKind::distributed ||
      kind == ArtifactKind::index || rank_file(weights))
    require_no_choice(weights, options);
  if (kind == ArtifactKind::snapshot) {
    read_snapshot_tensors(checkpoint);
    return checkpoint;
  }
  if (const auto rank = rank_file(weights))
    checkpoint = rank->kind == RankKind::fsdp ? read_fsdp_ranks(weights.parent_path())
                                              : read_deepspeed_ranks(weights.parent_path());
  else if (kind == ArtifactKind::distributed)
    read_distributed(checkpoint, weights);
  else if (kind == ArtifactKind::index)
    read_shards(checkpoint, weights);
  else
    read_file(checkpoint, weights, options);
  decide_roles(checkpoint.tensors);
  if (!options.as_saved) leave_out_training_state(checkpoint);
  return checkpoint;
}

Checkpoint open_checkpoint(const fs::path& path, const OpenOptions& options) {
  auto artifact = look(path);
  if (artifact.is_several()) refuse_series(path, options.scope);
  Checkpoint checkpoint{.path = path, .weights = path};
  if (artifact.kind == ArtifactKind::run) {
    checkpoint.weights = weights_of_run(path, options.scope);
    checkpoint.remarks.push_back(formatted("the run's weights are {}", checkpoint.weights));
    checkpoint.path = checkpoint.weights;
    artifact = look(checkpoint.weights);
  }
  if (artifact.kind == ArtifactKind::state) {
    require_no_choice(path, options);
    read_state_tensors(checkpoint);
  } else {
    if (artifact.weights.empty()) refuse_artifact(artifact, options.scope);
    if (artifact.kind == ArtifactKind::folder) require_one_meaning(path, options.scope);
    auto remarks = std::move(checkpoint.remarks);
    checkpoint = read_checkpoint(artifact.weights, options);
    checkpoint.path = name_of(artifact.weights);
    checkpoint.remarks.insert(checkpoint.remarks.begin(), remarks.begin(), remarks.end());
  }
  require_readable(checkpoint, options.scope);
  return checkpoint;
}

void require_readable(const Checkpoint& checkpoint, std::string_view scope) {
  std::set<std::string_view> names;
  for (const auto& tensor : checkpoint.tensors) {
    require(names.insert(tensor.name).second,
            "[{}] '{}' has the tensor \"{}\" twice",
            scope,
            checkpoint.path,
            printable(tensor.name));
    require(bits_of(tensor.dtype) > 0,
            "[{}] '{}': \"{}\" has the type {}, which a safetensors file cannot hold",
            scope,
            checkpoint.path,
            printable(tensor.name),
            tensor.dtype);
  }
}

TensorReader::TensorReader(std::vector<fs::path> files, std::size_t most_open)
    : files_(std::move(files)) {
  for (std::size_t i = 0; i < std::min(most_open, files_.size()); ++i)
    open_.push_back(fs::exists(files_[i]) ? std::make_unique<InputFile>(files_[i]) : nullptr);
}

TensorReader::TensorReader(const Checkpoint& checkpoint)
    : TensorReader(checkpoint.files, most_open_files()) {}

void TensorReader::read(const StoredTensor& tensor,
                        std::int64_t first,
                        std::span<std::byte> out) const {
  const auto unit = std::max<std::int64_t>(1, bits_of(tensor.dtype) / 8);
  const ReadFile read = [&](std::size_t file, std::int64_t offset, std::span<std::byte> bytes) {
    if (file < open_.size() && open_[file]) return open_[file]->read(offset, bytes);
    InputFile(files_[file]).read(offset, bytes);
  };
  read_stored(read, tensor.boxes, unit, first, out);
}

}  // namespace dimred::checkpoints
