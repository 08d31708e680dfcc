#include "checkpoints/checkpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/artifact.h"
#include "checkpoints/deepspeed_ranks.h"
#include "checkpoints/file_names.h"
#include "checkpoints/flat_average.h"
#include "checkpoints/fsdp_ranks.h"
#include "checkpoints/lora_config.h"
#include "checkpoints/part_names.h"
#include "checkpoints/rank_files.h"
#include "checkpoints/read_pickle.h"
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
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

using Shards = std::map<std::string, std::set<std::string>>;  // file -> names of tensors

Shards shards_of(const fs::path& index) {
  const auto text = InputFile(index).text(table_json_limits.bytes);
  const auto json = parse_json(text, index.string(), table_json_limits);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  require_environment(map != json.end() && map->is_object() && !map->empty(),
                      "[checkpoints] '{}' is damaged: the index needs a weight_map from tensor "
                      "names to shard files",
                      index);
  Shards shards;
  for (const auto& [tensor, shard] : map->items()) {
    require_environment(
        shard.is_string(),
        "[checkpoints] '{}' is damaged: in the weight_map, the shard of \"{}\" is not a file name",
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
                        "[checkpoints] '{}' lists the tensor \"{}\" in the shard {}, but the shard "
                        "lacks this tensor",
                        index,
                        name,
                        shard);
  for (const auto& name : names)
    require_environment(listed.contains(name),
                        "[checkpoints] '{}' does not list the tensor \"{}\" of the shard {}",
                        index,
                        name,
                        shard);
}

void require_no_choice(const fs::path& path, const OpenOptions& options) {
  require(options.take != "averaged",
          "[{}] take = averaged needs raw and averaged weights, received '{}' with one kind of "
          "weights",
          options.scope,
          path);
}

void remark_on_both(Checkpoint& checkpoint, const FlatAverage& both) {
  const auto known = [](const auto& remark) { return remark.find("--take raw") != remark.npos; };
  if (std::ranges::any_of(checkpoint.remarks, known)) return;
  checkpoint.remarks.push_back(
      formatted("raw weights ({}) and their average ({}) are both read; with --take raw or "
                "averaged, merge, convert and diff read one of them",
                printable(both.raw),
                printable(both.averaged)));
}

/// Refuses to choose where names say average, and dimred knows no raw weights of all of them.
void require_paired(const Checkpoint& checkpoint, const OpenOptions& options) {
  const auto unpaired = unpaired_averages(checkpoint.tensors);
  require(unpaired.empty(),
          "[{}] take = {} needs averaged weights with one set of raw weights of the same names and "
          "shapes, received '{}' with other names that say average: {}; save one kind of weights "
          "alone",
          options.scope,
          options.take,
          checkpoint.weights,
          printable(name_list(unpaired)));
}

/// Chooses among raw and averaged weights of one list of names; without a choice, both are read,
/// and a remark says so.
void take_kind(Checkpoint& checkpoint, const OpenOptions& options) {
  const auto both = flat_averages(checkpoint.tensors);
  if (options.take.empty()) {
    if (!both.empty()) return remark_on_both(checkpoint, both.front());
    if (const auto unpaired = unpaired_averages(checkpoint.tensors); !unpaired.empty())
      checkpoint.remarks.push_back(
          formatted("names say average, but are read as those of weights: {}",
                    printable(first_names(unpaired, 3))));
    return;
  }
  const bool averaged = options.take == "averaged";
  require(!averaged || both.size() < 2,
          "[{}] '{}' has several kinds of averaged weights: {}; save one of them alone",
          options.scope,
          checkpoint.weights,
          printable(name_list(texts_of(both, &FlatAverage::averaged))));
  for (const auto& kind : both) keep_one_kind(checkpoint.tensors, kind, averaged);
  require_paired(checkpoint, options);
  if (both.empty()) return require_no_choice(checkpoint.weights, options);
  checkpoint.averaging = options.take;
}

/// Reads the table, also of a file whose dictionaries hold no averaged weights, but whose tensors'
/// names say average: take_kind() chooses among these.
PytorchTable pytorch_table(const fs::path& file, const std::string& take) {
  try {
    return read_pytorch_table(file, take);
  } catch (const std::invalid_argument&) {
    if (take != "averaged") throw;
    auto table = read_pytorch_table(file, "");
    if (!table.averaging.empty() || flat_averages(table.tensors).empty()) throw;
    return table;
  }
}

void read_file(Checkpoint& checkpoint, const fs::path& file, const OpenOptions& options) {
  checkpoint.guard.add(file);
  const bool as_saved = options.as_saved;
  const bool by_name = !as_saved && file.extension() == ".safetensors";
  const auto& format = by_name ? safetensors_format : weights_format(file);
  checkpoint.format = format.name;
  if (&format == &pytorch_format) {
    require_all_experts(file);
    auto table = pytorch_table(file, options.take);
    std::ranges::move(table.remarks, std::back_inserter(checkpoint.remarks));
    checkpoint.averaging = std::move(table.averaging);
    return add_file(checkpoint, file, std::move(table.tensors));
  }
  add_file(checkpoint, file, as_saved ? format.table(file) : read_tensor_table(file));
}

void read_shards(Checkpoint& checkpoint, const fs::path& index) {
  checkpoint.guard.add(index);
  checkpoint.format = "shards";
  for (const auto& [shard, names] : shards_of(index)) {
    const auto file = index.parent_path() / shard;
    require(fs::path(shard).filename() == shard && fs::exists(file),
            "[checkpoints] '{}' names the shard '{}', but the folder of the index has no such file",
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

void remark_on_doubtful_names(Checkpoint& checkpoint) {
  std::vector<std::string> weights;
  for (const auto& tensor : checkpoint.tensors)
    if (is_weight(tensor.role)) weights.push_back(tensor.name);
  const auto names = doubtful_names(weights);
  if (!names.empty())
    checkpoint.remarks.push_back(
        formatted("names may also be an optimizer's, but are read as those of weights: {}",
                  count_and_names(names)));
}

/// The folders mp_rank_NN of Megatron beside the file's own, and this one, that have such a file.
std::vector<std::string> parallel_folders(const fs::path& file) {
  constexpr std::string_view rank = "mp_rank_";
  const auto folder = fs::absolute(file).parent_path();
  std::vector<std::string> folders;
  if (!folder.filename().string().starts_with(rank)) return folders;
  std::error_code unlisted;  // for a remark alone
  for (const auto& item : fs::directory_iterator(folder.parent_path(), unlisted))
    if (const auto name = item.path().filename().string(); name.starts_with(rank))
      if (fs::exists(item.path() / file.filename(), unlisted)) folders.push_back(name);
  std::ranges::sort(folders);
  return folders;
}

/// Says what lies beside the weights and belongs to them.
void remark_on_neighbours(Checkpoint& checkpoint) {
  const auto& file = checkpoint.weights;
  if (const auto parts = parallel_folders(file); parts.size() > 1)
    checkpoint.remarks.push_back(
        formatted("only one of {} parts of a checkpoint is read, because dimred does not join the "
                  "folders {}",
                  parts.size(),
                  printable(first_names(parts, 3))));
  if (const auto adapter = adapter_beside(file); !adapter.empty())
    checkpoint.remarks.push_back(
        formatted("an adapter lies beside the weights and is not read: {}; move it into a folder "
                  "of its own",
                  adapter.filename()));
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
                        "[checkpoints] '{}' is damaged: the tensor \"{}\" of the layout ends "
                        "beyond the {} values of the file",
                        checkpoint.path,
                        printable(tensor.name),
                        extent.count);
    tensor.boxes = {run_of(0, *elements, extent.offset + begin * unit)};
    tensor.boxes.front().file = extent.file;
    checkpoint.tensors.push_back(std::move(tensor));
    begin += *elements;
  }
  require_environment(begin == extent.count,
                      "[checkpoints] '{}' has {} values, but the tensors of the layout need {}; "
                      "the file is damaged, or dimred did not write the file",
                      checkpoint.path,
                      extent.count,
                      begin);
}

/// Adds the further names of tied parameters, whose values lie in the place of the first name's.
void add_tied(Checkpoint& checkpoint, const nlohmann::json& table) {
  for (const auto& [name, first] : table.value("tied", std::map<std::string, std::string>())) {
    const auto found = std::ranges::find(checkpoint.tensors, first, &StoredTensor::name);
    require_environment(
        found != checkpoint.tensors.end(),
        "[checkpoints] '{}' is damaged: the layout ties \"{}\" to the missing tensor \"{}\"",
        checkpoint.path,
        printable(name),
        printable(first));
    auto tensor = *found;
    tensor.name = name;
    checkpoint.tensors.push_back(std::move(tensor));
  }
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
    fail_environment("[checkpoints] '{}' is damaged: the layout is not a table of tensors ({})",
                     checkpoint.path,
                     error.what());
  }
  checkpoint.frozen = frozen_part_of(checkpoint.path, table);
  if (checkpoint.frozen) {
    auto tensors = checkpoint.frozen->tensors;
    for (auto& tensor : tensors) tensor.shared = true;
    add_file(checkpoint, checkpoint.frozen->file, std::move(tensors));
  }
  add_tied(checkpoint, table);
  decide_roles_without_state(checkpoint.tensors);
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
  checkpoint.held_step = info.step;
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
  require_environment(
      layout != state.scalars.end(),
      "[checkpoints] '{}' has no layout, so the names and shapes of the tensors are unknown",
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
  require(
      !states.empty(), "[{}] the run '{}' has saved neither a state nor final.h5 yet", scope, run);
  return states.back();
}

/// The member of a cache of Hugging Face's hub, snapshots/COMMIT, that refs/main names; else empty.
fs::path member_of_main(const Series& series) {
  constexpr std::int64_t longest_name = 256;
  for (const auto& member : series.members) {
    const auto main = member.path.parent_path().parent_path() / "refs/main";
    if (member.path.parent_path().filename() != "snapshots" ||
        type_at(main) != fs::file_type::regular)
      continue;
    const InputFile file(main);
    if (file.size() > longest_name) continue;
    const auto commit = file.text(longest_name);
    if (member.path.filename() == fs::path(trimmed(commit))) return member.path;
  }
  return {};
}

/// Names one member of a series for a person, which is the newest only where names have steps, or
/// else the first few.
std::string apt_of(const Series& series) {
  if (const auto main = member_of_main(series); !main.empty())
    return formatted(", such as '{}', which refs/main names", main);
  if (series.unordered.empty() && (!series.counted || series.listed))
    return formatted(
        ", such as the {}, '{}'", series.counted ? "last" : "newest", series.members.back().path);
  const auto name = [](const Member& member) { return path_text(member.path.filename()); };
  return formatted(" ({})", first_of_all(texts_of(series.members, name), 4));
}

[[noreturn]] void refuse_series(const fs::path& path, std::string_view scope) {
  auto series = members({path}, scope);
  put_in_order(series, look(path).kind == ArtifactKind::list);
  const auto& all = series.members;
  if (all.size() == 1)
    refuse(
        "[{}] needs the path of one checkpoint, received '{}', where dimred finds only '{}'; give "
        "the second path if it is the checkpoint",
        scope,
        path,
        all.front().path);
  refuse("[{}] '{}' holds {}; give only one checkpoint{}, or merge all with dimred merge",
         scope,
         path,
         counted(std::ssize(all), "checkpoint"),
         apt_of(series));
}

[[noreturn]] void refuse_artifact(const Artifact& artifact, std::string_view scope) {
  switch (artifact.kind) {
    case ArtifactKind::missing:
      refuse("[{}] no such file or folder: '{}'", scope, artifact.path);
    case ArtifactKind::matrix:
      refuse("[{}] '{}' is a matrix without tensor names; give a checkpoint", scope, artifact.path);
    case ArtifactKind::part:
      require_whole(artifact.path, scope);
      [[fallthrough]];
    default:
      refuse(
          "[{}] needs a checkpoint, received '{}', a file of another kind", scope, artifact.path);
  }
}

/// Asks for the next window of a file where a read enters a window, so that the disk reads while
/// the caller computes. The kernel's own window, 128 KiB as a rule, leaves the disk idle.
void read_ahead(const InputFile& file, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t window = 1 << 20;
  const auto next = (end / window + 1) * window;
  if (begin / window != end / window && next < file.size())
    ::posix_fadvise(file.descriptor(), next, window, POSIX_FADV_WILLNEED);
}

}  // namespace

fs::path Checkpoint::folder() const {
  return !in_folder() ? fs::path() : rank_file(weights) ? side_folder_of(weights) : path;
}

bool Checkpoint::is_adapter() const {
  const auto own = folder();
  if (own.empty() || !fs::exists(own / adapter_config_name)) return false;
  return weights.filename().string().starts_with("adapter_model") ||
         std::ranges::any_of(tensors,
                             [](const auto& tensor) { return tensor.role == Role::adapter; });
}

bool is_about_tensors(std::string_view remark) {
  constexpr std::array<std::string_view, 11> beginnings{"names are dotted",
                                                        "raw weights (",
                                                        "names say average",
                                                        "names may also be",
                                                        "another network (",
                                                        "other networks (",
                                                        "another tensor (",
                                                        "other tensors (",
                                                        "numbers of Python",
                                                        "only one of",
                                                        "an adapter lies beside"};
  return std::ranges::any_of(
      beginnings, [&](std::string_view beginning) { return remark.starts_with(beginning); });
}

void require_one_averaging(const std::vector<MemberFacts>& members, std::string_view scope) {
  const auto first = [&](std::initializer_list<std::string_view> kinds) {
    return std::ranges::find_if(members, [&](const MemberFacts& member) {
      return std::ranges::find(kinds, member.averaging) != kinds.end();
    });
  };
  auto averaged = first({"averaged"}), other = first({"", "raw", "train mode"});
  if (averaged == members.end() || other == members.end()) {
    averaged = first({"eval mode"});
    other = first({"train mode"});
  }
  if (averaged == members.end() || other == members.end()) return;
  refuse(
      "[{}] needs weights of one kind, but '{}' gives averaged weights and '{}' {}; give files of "
      "one kind, or, if each holds both kinds, choose one with --take of merge or convert",
      scope,
      averaged->path,
      other->path,
      other->averaging.empty() ? "does not say that its weights are averaged"
                               : "gives raw weights");
}

Checkpoint read_checkpoint(const fs::path& weights, ArtifactKind kind, const OpenOptions& options) {
  Checkpoint checkpoint{.path = weights, .weights = weights};
  if (kind == ArtifactKind::snapshot) {
    require_no_choice(weights, options);
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
  if (!options.as_saved && checkpoint.averaging.empty()) take_kind(checkpoint, options);
  remark_on_doubtful_names(checkpoint);
  remark_on_neighbours(checkpoint);
  return checkpoint;
}

Checkpoint open_checkpoint(const fs::path& path, const OpenOptions& options) {
  auto artifact = look(path);
  if (artifact.is_several()) refuse_series(path, options.scope);
  Checkpoint checkpoint{.path = path, .weights = path};
  if (artifact.kind == ArtifactKind::run) {
    checkpoint.weights = weights_of_run(path, options.scope);
    checkpoint.remarks.push_back(
        formatted("the weights of the run are read from {}", checkpoint.weights));
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
    const bool is_file = artifact.weights == artifact.path;
    const auto kind = is_file ? artifact.kind : look(artifact.weights).kind;
    checkpoint = read_checkpoint(artifact.weights, kind, options);
    checkpoint.path = name_of(artifact.weights);
    checkpoint.remarks.insert(checkpoint.remarks.begin(), remarks.begin(), remarks.end());
  }
  require_readable(checkpoint, options.scope);
  return checkpoint;
}

void add_file(Checkpoint& checkpoint, const fs::path& file, std::vector<StoredTensor> tensors) {
  for (auto& tensor : tensors) {
    for (auto& box : tensor.boxes) box.file += checkpoint.files.size();
    checkpoint.tensors.push_back(std::move(tensor));
  }
  checkpoint.files.push_back(file);
}

void leave_out_training_state(Checkpoint& checkpoint) {
  std::erase_if(checkpoint.tensors, [&](const StoredTensor& tensor) {
    if (is_left_out(tensor.role)) checkpoint.left_out.push_back(tensor.name);
    return is_left_out(tensor.role);
  });
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
            "[{}] '{}': \"{}\" has the type {}, but safetensors has no such type",
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
  const ReadFile read = [&](std::size_t file, std::int64_t offset, std::span<std::byte> bytes) {
    if (file >= open_.size() || !open_[file]) return InputFile(files_[file]).read(offset, bytes);
    read_ahead(*open_[file], offset, offset + std::ssize(bytes));
    open_[file]->read(offset, bytes);
  };
  read_stored(read, tensor.boxes, tensor.unit(), first, out);
}

}  // namespace dimred::checkpoints
