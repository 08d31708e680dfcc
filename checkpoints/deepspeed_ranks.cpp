#include "checkpoints/deepspeed_ranks.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "checkpoints/rank_files.h"
#include "checkpoints/read_pickle.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/shape.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/parallel.h"
#include "support/printable.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view deepspeed_scope = "DeepSpeed";
constexpr auto whole_model = "mp_rank_00_model_states.pt";  // of stages 1 and 2

struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
};

/// So that sums of their elements fit 63 bits.
constexpr std::int64_t most_parameters = 1 << 20;

void require_few(std::size_t parameters) {
  require(std::cmp_less_equal(parameters, most_parameters),
          "[DeepSpeed] needs at most {} parameters, received {}",
          most_parameters,
          parameters);
}

std::vector<NamedShape> shapes_of(const nlohmann::json& pairs) {
  require_few(pairs.size());
  std::vector<NamedShape> shapes;
  for (const auto& pair : pairs) {
    shapes.push_back({pair.at(0), pair.at(1)});
    auto& [name, shape, elements] = shapes.back();
    require(product(shape, most_parameters).has_value(),
            "[DeepSpeed] the parameter \"{}\" needs a shape of fewer elements, received {}",
            printable(name),
            extents_text(shape));
    elements = product(shape).value();
  }
  return shapes;
}

/// A tensor as it lies in a file.
struct RankRow {
  std::string name, dtype;
  std::vector<std::int64_t> shape, stride;
  std::int64_t offset = 0;
  std::int64_t elements = 0;
};

std::vector<RankRow> rows_of(const nlohmann::json& json) {
  std::vector<RankRow> rows;
  for (const auto& row : json) {
    rows.push_back({row.at(0), row.at(1), row.at(2), row.at(3), row.at(4)});
    rows.back().elements = product(rows.back().shape).value();
  }
  return rows;
}

/// The files of a folder, by rank.
struct ZeroFiles {
  std::vector<fs::path> models;  // one of stages 1 and 2
  std::vector<fs::path> optimizers;
};

/// Refuses what model, pipeline and expert parallelism write.
void require_data_parallel(const fs::path& file, const std::optional<RankFile>& rank) {
  const auto name = file.filename().string();
  if (!name.ends_with("_states.pt") || name == whole_model) return;
  require(rank && rank->model_parallel == 0,
          "[DeepSpeed] '{}' comes from model, pipeline or expert parallelism, and dimred reads "
          "only files of data parallelism; write the weights into one file with DeepSpeed first",
          file);
}

void place_at_rank(std::vector<fs::path>& files, const RankFile& rank, const fs::path& file) {
  require(rank.rank == std::ssize(files),
          "[DeepSpeed] '{}' has no file {} of rank {}, but has '{}'; give a folder with the files "
          "of all ranks",
          file.parent_path(),
          rank.kind == RankKind::zero_model ? "of model states" : "of optimizer states",
          files.size(),
          file.filename());
  files.push_back(file);
}

ZeroFiles zero_files(const fs::path& folder) {
  ZeroFiles files;
  for (const auto& file : list_files(folder, {".pt"})) {
    const auto rank = rank_file(file);
    require_data_parallel(file, rank);
    if (!rank || rank->kind == RankKind::fsdp) continue;
    place_at_rank(
        rank->kind == RankKind::zero_model ? files.models : files.optimizers, *rank, file);
  }
  if (files.models.empty() && fs::exists(folder / whole_model))
    files.models = {folder / whole_model};
  require(!files.optimizers.empty(),
          "[DeepSpeed] '{}' has no file zero_pp_rank_R_mp_rank_00_optim_states.pt of any rank R; "
          "give a folder with one such file per rank, because these files hold the weights",
          folder);
  require(
      !files.models.empty(),
      "[DeepSpeed] '{}' has no file of model states; such a file is named {} or zero_pp_rank_R_{}",
      folder,
      whole_model,
      whole_model);
  return files;
}

/// A tensor that lies in one file.
StoredTensor whole_tensor(const RankRow& row) {
  const std::vector<std::int64_t> first(row.shape.size());
  StoredTensor tensor{.name = row.name, .dtype = row.dtype, .shape = row.shape};
  tensor.boxes = {box_of(row.shape, first, row.shape, row.stride)};
  tensor.boxes.front().offset = row.offset;
  return tensor;
}

/// A rank's part of a group's flat vector, or of a tensor: elements [begin, begin + count) lie at
/// `offset` of a file.
struct Stretch {
  std::int64_t begin = 0, count = 0, offset = 0;
  std::size_t file = 0;
};

/// Makes a tensor of the elements [first, first + elements) of a vector that lies in stretches.
StoredTensor cut_out(const NamedShape& of,
                     const std::string& dtype,
                     const std::vector<Stretch>& vector,
                     std::int64_t first) {
  const auto unit = bits_of(dtype) / 8;
  StoredTensor tensor{.name = of.name, .dtype = dtype, .shape = of.shape};
  for (const auto& stretch : vector) {
    const auto low = std::max(first, stretch.begin);
    const auto high = std::min(first + of.elements, stretch.begin + stretch.count);
    if (low >= high) continue;
    tensor.boxes.push_back(
        run_of(low - first, high - low, stretch.offset + (low - stretch.begin) * unit));
    tensor.boxes.back().file = stretch.file;
  }
  return tensor;
}

/// The contents of the files of all ranks.
struct Zero {
  int stage = 0;
  std::int64_t ranks = 0;
  std::vector<std::vector<RankRow>> flat;  // of each rank the groups
  nlohmann::json paddings;                 // behind each parameter of each group; null: none
  std::vector<nlohmann::json> models;
  std::size_t first_optimizer = 0;  // place of rank 0's file among the checkpoint's
};

/// Reads the optimizer's files, which have to agree.
void read_optimizers(Zero& zero, const std::vector<fs::path>& files) {
  std::vector<nlohmann::json> saved(files.size());
  in_parallel(std::ssize(saved), available_threads(), [&](std::int64_t i) {
    saved[i] = read_pickle_json("deepspeed_optimizer", deepspeed_scope, files[i]);
  });
  zero.stage = saved.front().at("stage");
  zero.ranks = saved.front().at("partitions");
  zero.paddings = saved.front().at("paddings");
  require(zero.ranks == std::ssize(files),
          "[DeepSpeed] '{}' comes from {} ranks, but the folder has {} files of optimizer states; "
          "each rank needs one",
          files.front(),
          zero.ranks,
          files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    zero.flat.push_back(rows_of(saved[i].at("groups")));
    const bool same = saved[i].at("stage") == zero.stage && saved[i].at("partitions") == zero.ranks;
    require(same && zero.flat[i].size() == zero.flat.front().size() &&
                std::ranges::equal(
                    zero.flat[i], zero.flat.front(), {}, &RankRow::dtype, &RankRow::dtype),
            "[DeepSpeed] '{}' and '{}' differ in the ZeRO stage, the number of ranks or the "
            "parameter groups; all files must come from one save",
            files.front(),
            files[i]);
  }
}

void read_models(Zero& zero, const std::vector<fs::path>& files) {
  const auto needed = zero.stage == 3 ? zero.ranks : 1;
  require(
      std::ssize(files) == needed,
      "[DeepSpeed] '{}' needs files of model states from {} ranks for ZeRO stage {}, received {}",
      files.front().parent_path(),
      needed,
      zero.stage,
      files.size());
  zero.models.resize(files.size());
  in_parallel(std::ssize(files), available_threads(), [&](std::int64_t i) {
    zero.models[i] = read_pickle_json("deepspeed_model", deepspeed_scope, files[i]);
  });
}

/// Adds the tensors of a checkpoint, each name once.
class ZeroTensors {
 public:
  ZeroTensors(Checkpoint& checkpoint, const Zero& zero) : checkpoint_(checkpoint), zero_(zero) {}

  void add_all() {
    const auto& model = zero_.models.front();
    if (zero_.stage == 3)
      add_interleaved();
    else
      add_groups();
    add_frozen();
    add_others(model.at("others"), model.at("buffers"));
    add_shared(model.at("shared"));
  }

 private:
  void add(StoredTensor tensor) {
    require(names_.emplace(tensor.name, checkpoint_.tensors.size()).second,
            "[DeepSpeed] '{}' has the parameter \"{}\" twice",
            checkpoint_.path,
            printable(tensor.name));
    checkpoint_.tensors.push_back(std::move(tensor));
  }

  std::size_t optimizer_file(std::size_t rank) const { return zero_.first_optimizer + rank; }

  /// Stages 1 and 2: a group's vector is what its ranks have, one behind the other.
  void add_groups() {
    const auto& groups = zero_.models.front().at("groups");
    require(groups.size() == zero_.flat.front().size(),
            "[DeepSpeed] '{}' has {} parameter groups, but the optimizer has {}",
            checkpoint_.path,
            groups.size(),
            zero_.flat.front().size());
    for (std::size_t group = 0; group < groups.size(); ++group) {
      std::vector<Stretch> vector;
      std::int64_t elements = 0;
      for (std::size_t rank = 0; rank < zero_.flat.size(); ++rank) {
        const auto& row = zero_.flat[rank][group];
        vector.push_back({elements, row.elements, row.offset, optimizer_file(rank)});
        elements += row.elements;
      }
      add_group(shapes_of(groups[group]), group, vector, elements);
    }
  }

  void add_group(const std::vector<NamedShape>& shapes,
                 std::size_t group,
                 const std::vector<Stretch>& vector,
                 std::int64_t elements) {
    std::vector<std::int64_t> paddings(shapes.size());
    if (!zero_.paddings.is_null() && group < zero_.paddings.size())
      zero_.paddings[group].get_to(paddings);
    require(paddings.size() == shapes.size(),
            "[DeepSpeed] '{}': group {} has {} parameters and needs one padding for each, received "
            "{} paddings",
            checkpoint_.path,
            group,
            shapes.size(),
            paddings.size());
    std::int64_t end = 0, first = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      add(cut_out(shapes[i], zero_.flat.front()[group].dtype, vector, first));
      end = first + shapes[i].elements;
      first = end + paddings[i];
    }
    // The vector was padded for its ranks, once or twice; what was saved may lack that.
    const auto unit = 2 * zero_.ranks;
    const auto aligned = [&](std::int64_t count) { return (count + unit - 1) / unit * unit; };
    require(end <= elements && aligned(first) == aligned(elements),
            "[DeepSpeed] '{}': group {} needs {} elements, but the optimizer states of all ranks "
            "hold {}",
            checkpoint_.path,
            group,
            first,
            elements);
  }

  /// Stage 3: each parameter is cut among the ranks, whose parts follow each other in the groups.
  void add_interleaved() {
    std::vector<NamedShape> shapes;
    for (const auto& group : zero_.models.front().at("groups"))
      for (auto& shape : shapes_of(group)) shapes.push_back(std::move(shape));
    require_few(shapes.size());
    std::int64_t needed = 0;
    for (const auto& shape : shapes) needed += elements_of_rank(shape);
    for (std::size_t rank = 0; rank < zero_.flat.size(); ++rank) {
      std::int64_t elements = 0;
      for (const auto& row : zero_.flat[rank]) elements += row.elements;
      require(elements == needed,
              "[DeepSpeed] the parameters of '{}' need {} elements in the optimizer states, "
              "received {}",
              checkpoint_.files[optimizer_file(rank)],
              needed,
              elements);
    }
    std::int64_t at = 0;
    for (const auto& shape : shapes) {
      add(cut_out(shape, dtype_of_flat(), stretches_of(shape, at), 0));
      at += elements_of_rank(shape);
    }
  }

  std::string dtype_of_flat() const {
    const auto& groups = zero_.flat.front();
    return groups.empty() ? "F32" : groups.front().dtype;
  }

  /// Elements that a rank has of a parameter, with padding in the last one.
  std::int64_t elements_of_rank(const NamedShape& shape) const {
    return (shape.elements + zero_.ranks - 1) / zero_.ranks;
  }

  /// Returns the places of a parameter whose parts begin at element `at` of each rank's groups.
  std::vector<Stretch> stretches_of(const NamedShape& shape, std::int64_t at) const {
    std::vector<Stretch> stretches;
    const auto part = elements_of_rank(shape);
    for (std::size_t rank = 0; rank < zero_.flat.size(); ++rank) {
      std::int64_t begin = 0;  // of the group among the rank's elements
      for (const auto& row : zero_.flat[rank]) {
        const auto low = std::max(at, begin), high = std::min(at + part, begin + row.elements);
        const auto unit = bits_of(row.dtype) / 8;
        if (low < high)
          stretches.push_back({part * static_cast<std::int64_t>(rank) + low - at,
                               high - low,
                               row.offset + (low - begin) * unit,
                               optimizer_file(rank)});
        begin += row.elements;
      }
    }
    return stretches;
  }

  /// Frozen parameters: whole ones of stages 1 and 2, of stage 3 what the ranks have of each.
  void add_frozen() {
    std::vector<std::map<std::string, RankRow>> fragments;
    for (const auto& model : zero_.models) {
      auto& of_rank = fragments.emplace_back();
      for (auto& row : rows_of(model.at("fragments"))) of_rank.emplace(row.name, row);
    }
    for (const auto& shape : shapes_of(zero_.models.front().at("frozen"))) {
      std::vector<RankRow> rows;
      for (std::size_t file = 0; file < fragments.size(); ++file)
        rows.push_back(fragment_of(shape, fragments[file], file));
      if (zero_.stage == 3)
        add_fragments(shape, rows);
      else
        add(whole_tensor(rows.front()));
    }
  }

  /// Returns the part of a frozen parameter in the file of a rank.
  RankRow fragment_of(const NamedShape& shape,
                      const std::map<std::string, RankRow>& fragments,
                      std::size_t file) const {
    const auto found = fragments.find(shape.name);
    const auto part = zero_.stage == 3 ? elements_of_rank(shape) : shape.elements;
    require(
        found != fragments.end() && found->second.elements == part &&
            (zero_.stage == 3 ? found->second.stride.empty() : found->second.shape == shape.shape),
        "[DeepSpeed] '{}' holds {} elements of the frozen parameter \"{}\", but must hold {} of "
        "its {} elements",
        checkpoint_.files[file],
        found == fragments.end() ? 0 : found->second.elements,
        printable(shape.name),
        part,
        shape.elements);
    return found->second;
  }

  void add_fragments(const NamedShape& shape, const std::vector<RankRow>& rows) {
    std::vector<Stretch> stretches;
    for (std::size_t file = 0; file < rows.size(); ++file) {
      require(rows[file].dtype == rows.front().dtype,
              "[DeepSpeed] '{}' has the frozen parameter \"{}\" as {}, but '{}' has this parameter "
              "as {}",
              checkpoint_.files.front(),
              printable(shape.name),
              rows.front().dtype,
              checkpoint_.files[file],
              rows[file].dtype);
      const auto part = elements_of_rank(shape);
      stretches.push_back({part * static_cast<std::int64_t>(file), part, rows[file].offset, file});
    }
    add(cut_out(shape, rows.front().dtype, stretches, 0));
  }

  /// The module's tensors that no group has: buffers, and of stage 1 frozen parameters.
  void add_others(const nlohmann::json& others, const nlohmann::json& buffer_names) {
    const std::set<std::string> buffers(buffer_names.begin(), buffer_names.end());
    std::vector<std::string> frozen;
    for (const auto& row : rows_of(others)) {
      const bool buffer = buffers.contains(row.name);
      if (!buffer && zero_.stage == 3) {
        checkpoint_.left_out.push_back(row.name);
        continue;
      }
      if (!buffer) frozen.push_back(row.name);
      add(whole_tensor(row));
    }
    if (!frozen.empty())
      checkpoint_.remarks.push_back(
          formatted("the optimizer lacks {} tensors of the module, such as {}; these tensors keep "
                    "the model's type",
                    frozen.size(),
                    printable(frozen.front())));
  }

  void add_shared(const nlohmann::json& pairs) {
    for (const auto& pair : pairs) {
      const std::string name = pair.at(0), source = pair.at(1);
      const auto found = names_.find(source);
      if (found == names_.end()) {
        checkpoint_.remarks.push_back(
            formatted("left out {}, because the tensor shares the values of {}, and the checkpoint "
                      "lacks these values",
                      printable(name),
                      printable(source)));
        continue;
      }
      auto tensor = checkpoint_.tensors[found->second];
      tensor.name = name;
      if (!names_.contains(name)) add(std::move(tensor));
    }
  }

  Checkpoint& checkpoint_;
  const Zero& zero_;
  std::map<std::string, std::size_t> names_;
};

}  // namespace

Checkpoint read_deepspeed_ranks(const fs::path& folder) {
  const auto files = zero_files(folder);
  Checkpoint checkpoint{.path = folder, .weights = rank_weights_in(folder), .format = "DeepSpeed"};
  checkpoint.across_files = true;
  checkpoint.files = files.models;
  checkpoint.files.insert(checkpoint.files.end(), files.optimizers.begin(), files.optimizers.end());
  for (const auto& file : checkpoint.files) checkpoint.guard.add(file);
  Zero zero{.first_optimizer = files.models.size()};
  read_optimizers(zero, files.optimizers);
  read_models(zero, files.models);
  ZeroTensors(checkpoint, zero).add_all();
  return checkpoint;
}

void require_all_experts(const fs::path& file) {
  constexpr std::string_view states = "model_states.pt";
  if (!file.filename().string().ends_with(states)) return;
  for (const auto& other : list_files(fs::absolute(file).parent_path(), {".pt"})) {
    const auto name = other.filename().string();
    require(name.find("expert_") == name.npos || !name.ends_with(states),
            "[DeepSpeed] '{}' holds only a part of the weights; '{}' beside it holds an expert's "
            "weights; write the weights into one file with DeepSpeed first",
            file,
            other.filename());
  }
}

}  // namespace dimred::checkpoints
