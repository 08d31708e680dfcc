#include "run/weights/named_weights.h"

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
#include "checkpoints/steps.h"
#include "engine/weights/frozen.h"
#include "run/weights/frozen_file.h"
#include "run/weights/matching.h"
#include "run/weights/weights.h"
#include "support/errors.h"
#include "support/json.h"

namespace dimred::run {
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
    require_environment(
        size <= values.size() - offset,
        "[weights] {} is damaged: the table of names needs more values than the file has",
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
                      "[weights] {} has values without names, because the revision that wrote this "
                      "file did not name running statistics",
                      path);
}

/// The frozen part of the run that it belongs to.
void append_frozen(const fs::path& path,
                   const std::string& expected,
                   std::vector<WeightTensor>& tensors) {
  const auto file = checkpoints::frozen_file_of(path);
  require(
      !file.empty(),
      "[weights] {} cannot be read, because the file {} of its run is missing; restore this file",
      path,
      checkpoints::frozen_file_name);
  auto frozen = checkpoints::read_weights(file).tensors;
  std::vector<layout::Parameter> table;
  std::vector<float> values;
  for (const auto& tensor : frozen) {
    table.push_back({tensor.name, tensor.shape});
    values.insert(values.end(), tensor.values.begin(), tensor.values.end());
  }
  require_environment(engine::frozen_digest(layout::make_layout(table), values) == expected,
                      "[weights] {} does not have the frozen parameters that {} was trained with: "
                      "the digests differ",
                      file,
                      path);
  std::ranges::move(frozen, std::back_inserter(tensors));
}

/// The class names that a state or snapshot records.
std::vector<std::string> classes_of(const std::string& run_json) {
  if (run_json.empty()) return {};
  const auto record = nlohmann::json::parse(run_json).value("data", nlohmann::json());
  if (!record.is_object()) return {};
  return record.at("class_names").get<std::vector<std::string>>();
}

WeightsFile own_weights(const checkpoints::Artifact& artifact) {
  const auto& path = artifact.path;
  const auto vectors = read_own(artifact, [](const auto&) { return checkpoints::ColumnRanges(); });
  const auto table = parse_json(vectors.layout_json, formatted("[weights] the layout of {}", path));
  const auto none = nlohmann::json::array();
  WeightsFile file{.format = "dimred", .tensors = {}};
  if (artifact.kind == checkpoints::ArtifactKind::snapshot)
    file.chosen = checkpoints::step_difference({{path, vectors.step}});
  file.classes = classes_of(vectors.run_json);
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

void write_named_weights(engine::Model& model, const fs::path& file) {
  std::vector<checkpoints::FloatTensor> floats;
  std::vector<checkpoints::IntegerTensor> integers;
  auto& objective = *model.objective;
  const auto of_head = objective.head() ? objective.parameters().back().name : std::string();
  for (const auto& parameter : models::all_tensors(objective)) {
    const auto& [name, tensor] = std::tie(parameter.name, parameter.tensor);
    if (name == of_head) continue;
    if (tensor.is_floating_point()) {  // in PyTorch's memory order, whatever the tensor's own
      floats.push_back({name, tensor.sizes().vec(), models::to_vector(tensor.contiguous())});
    } else {
      integers.push_back({name, tensor.sizes().vec(), models::to_integers(tensor)});
    }
  }
  checkpoints::write_safetensors(file, floats, integers);
}

WeightsFile named_weights(const engine::Model& model, const fs::path& path) {
  auto artifact = checkpoints::look(path);
  require(artifact.kind != checkpoints::ArtifactKind::missing,
          "[weights] no such file or folder: {}",
          path);
  checkpoints::require_whole(path, "weights");
  std::string remark;
  if (artifact.is_several()) {
    const auto series = latest_members(path);
    const auto& members = series.members;
    require(series.unordered.empty(),
            "[weights] '{}' has no newest checkpoint, because {}; give one checkpoint",
            path,
            series.unordered);
    const bool only = members.size() == 1;
    require(only || !series.counted || series.listed,
            "[weights] '{}' has no newest checkpoint, because the names have no steps; give one "
            "checkpoint",
            path);
    artifact = checkpoints::look(members.back().weights);
    remark = only ? formatted("{} is the only checkpoint", members.back().path)
                  : formatted("{} is the newest of {}", members.back().path, members.size());
    for (const auto& line : series.remarks) remark.append("; ").append(line);
  }
  const bool foreign =
      artifact.kind != checkpoints::ArtifactKind::snapshot && !artifact.weights.empty();
  auto file = foreign ? foreign_weights(model, artifact.weights) : own_weights(artifact);
  if (!remark.empty()) file.chosen = remark + (file.chosen.empty() ? "" : "; ") + file.chosen;
  return file;
}

}  // namespace dimred::run
