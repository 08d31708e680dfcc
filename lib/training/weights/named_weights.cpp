#include "training/weights/named_weights.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tuple>
#include <type_traits>

#include "checkpoints/artifact.h"
#include "checkpoints/frozen_part.h"
#include "checkpoints/part_names.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/shape.h"
#include "support/errors.h"
#include "support/json.h"
#include "training/weights/frozen.h"
#include "training/weights/matching.h"
#include "training/weights/weights.h"

namespace dimred::training {
namespace {

namespace fs = std::filesystem;
using checkpoints::WeightsFile;
using checkpoints::WeightTensor;

/// Cuts a vector into the tensors of a table's rows.
template <class T>
void append_tensors(const fs::path& path,
                    const nlohmann::json& rows,
                    const std::vector<T>& values,
                    std::vector<WeightTensor>& tensors) {
  std::size_t offset = 0;
  for (const auto& row : rows) {
    WeightTensor tensor{.name = row.at("name"), .shape = row.at("shape")};
    const std::size_t size = checkpoints::product(tensor.shape).value_or(-1);
    require_environment(size <= values.size() - offset,
                        "[weights] {}: its table of names is longer than its values",
                        path);
    const auto begin = values.begin() + offset;
    const auto end = begin + size;
    if constexpr (std::is_same_v<T, float>) tensor.values.assign(begin, end);
    if constexpr (!std::is_same_v<T, float>) tensor.integers.assign(begin, end);
    tensor.floating = std::is_same_v<T, float>;
    tensors.push_back(std::move(tensor));
    offset += size;
  }
  require_environment(offset == values.size(),
                      "[weights] {} has values without names, because it comes from a revision "
                      "that did not name running statistics",
                      path);
}

/// The frozen part of the run that it belongs to.
void append_frozen(const fs::path& path,
                   const std::string& expected,
                   std::vector<WeightTensor>& tensors) {
  const auto file = checkpoints::frozen_file_of(path);
  require(!file.empty(),
          "[weights] {} cannot be read without the {} of its run, and this file is missing",
          path,
          checkpoints::frozen_file_name);
  auto frozen = checkpoints::read_weights(file).tensors;
  std::vector<layout::Parameter> table;
  std::vector<float> values;
  for (const auto& tensor : frozen) {
    table.push_back({tensor.name, tensor.shape});
    values.insert(values.end(), tensor.values.begin(), tensor.values.end());
  }
  require_environment(
      frozen_digest(layout::make_layout(table), values) == expected,
      "[weights] {} is not the frozen part that {} was trained with: its digest differs",
      file,
      path);
  std::ranges::move(frozen, std::back_inserter(tensors));
}

WeightsFile own_weights(const checkpoints::Artifact& artifact) {
  const auto& path = artifact.path;
  const auto vectors = read_own(artifact, [](const auto&) { return checkpoints::ColumnRanges(); });
  const auto table = parse_json(vectors.layout_json, formatted("[weights] the layout of {}", path));
  const auto none = nlohmann::json::array();
  WeightsFile file{.format = "dimred", .tensors = {}};
  append_tensors(path, table.at("parameters"), vectors.values, file.tensors);
  append_tensors(path, table.value("buffers", none), vectors.buffers, file.tensors);
  append_tensors(path, table.value("counters", none), vectors.counters, file.tensors);
  if (!table.contains("frozen")) return file;
  if (checkpoints::frozen_file_of(path).empty())
    refuse_missing(vectors.layout_json, vectors.source, [](const auto&) { return true; });
  append_frozen(path, table.at("frozen"), file.tensors);
  return file;
}

}  // namespace

void write_named_weights(Model& model, const fs::path& file) {
  std::vector<checkpoints::FloatTensor> floats;
  std::vector<checkpoints::IntegerTensor> integers;
  auto& objective = *model.objective;
  for (const auto& parameter : models::all_tensors(objective)) {
    const auto& [name, tensor] = std::tie(parameter.name, parameter.tensor);
    if (objective.head() != nullptr && name == models::head_weights) continue;
    if (tensor.is_floating_point()) {  // in PyTorch's memory order, whatever the tensor's own
      floats.push_back({name, tensor.sizes().vec(), models::to_vector(tensor.contiguous())});
    } else {
      integers.push_back({name, tensor.sizes().vec(), models::to_integers(tensor)});
    }
  }
  checkpoints::write_safetensors(file, floats, integers);
}

WeightsFile named_weights(const Model& model, const fs::path& path) {
  auto artifact = checkpoints::look(path);
  require(artifact.kind != checkpoints::ArtifactKind::missing,
          "[weights] no such file or folder: {}",
          path);
  checkpoints::require_whole(path, "weights");
  std::string remark;
  if (artifact.is_several()) {
    const auto members = latest_members(path).members;
    artifact = checkpoints::look(members.back().weights);
    remark = formatted("{} is the newest of {}", members.back().path, members.size());
  }
  const bool foreign =
      artifact.kind != checkpoints::ArtifactKind::snapshot && !artifact.weights.empty();
  auto file = foreign ? foreign_weights(model, artifact.weights) : own_weights(artifact);
  if (!remark.empty()) file.chosen = remark + (file.chosen.empty() ? "" : "; ") + file.chosen;
  return file;
}

}  // namespace dimred::training
