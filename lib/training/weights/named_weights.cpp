#include "training/weights/named_weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tuple>

#include "checkpoints/artifact.h"
#include "checkpoints/frozen_part.h"
#include "checkpoints/part_names.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/shape.h"
#include "checkpoints/snapshot.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/text.h"
#include "training/state.h"
#include "training/weights/frozen.h"
#include "training/weights/weights.h"

namespace dimred::training {
namespace {

namespace fs = std::filesystem;
using checkpoints::WeightsFile;
using checkpoints::WeightTensor;
using Shape = std::vector<std::int64_t>;

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
          "[weights] {} needs the {} of its run, which is missing",
          path,
          frozen_file_name);
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

std::string shape_of(const WeightTensor& tensor) {
  return (tensor.floating ? "" : "integers ") + nlohmann::json(tensor.shape).dump();
}

/// Returns nothing unless every value is an integer.
std::vector<std::int64_t> whole_numbers(const std::vector<float>& values) {
  constexpr float beyond = 0x1p63F;
  const bool whole = std::ranges::all_of(
      values, [](float value) { return value == std::floor(value) && std::abs(value) < beyond; });
  if (!whole) return {};
  return {values.begin(), values.end()};
}

/// The names of a few, for a message.
template <class Items, class Name>
std::string some_names(const Items& items, Name name) {
  constexpr std::size_t most = 3;
  auto names = texts_of(items, name);
  const bool more = names.size() > most;
  names.resize(std::min(most, names.size()));
  return name_list(names) + (more ? ", ..." : "");
}

/// Looks the network's tensors up one after another.
class Matcher {
 public:
  Matcher(const WeightsFile& file, const std::function<bool(const std::string&)>& selected)
      : selected_(selected) {
    for (const auto& tensor : file.tensors) file_[tensor.name] = &tensor;
  }

  /// Fills the tensors of a layout into its vector of all ranks in file order.
  void fill(const layout::Layout& layout, std::vector<float>& values) {
    for (const auto& entry : layout.entries) {
      const auto* tensor = wanted(entry.name, entry.global_shape());
      if (tensor != nullptr)
        std::ranges::copy(tensor->values, values.begin() + entry.global_offset);
    }
  }

  void fill_buffers(const std::vector<models::NamedTensor>& buffers) {
    auto values = result.state.vectors["buffers"].begin();
    auto counters = result.state.counters["counters"].begin();
    for (const auto& buffer : buffers) {
      const auto& [name, tensor] = std::tie(buffer.name, buffer.tensor);
      if (tensor.is_floating_point()) {
        const auto* found = wanted(name, tensor.sizes().vec());
        if (found != nullptr) std::ranges::copy(found->values, values);
        values += tensor.numel();
      } else {
        fill_counter(name, tensor.numel(), counters);
        counters += tensor.numel();
      }
    }
  }

  Matching result;

  /// Whether none of the network's names is in the file.
  bool found_nothing() const {
    return std::ranges::none_of(used_,
                                [&](const std::string& name) { return file_.contains(name); });
  }

  void list_unused(const WeightsFile& file) {
    for (const auto& tensor : file.tensors) {
      if (used_.contains(tensor.name)) continue;
      result.unused.push_back(tensor.name);
      if (tensor.role == checkpoints::Role::adapter) result.unfolded.push_back(tensor.name);
    }
  }

 private:
  /// Null when the file has none.
  const WeightTensor* take(const std::string& name) {
    const auto found = file_.find(name);
    used_.insert(name);
    return found == file_.end() ? nullptr : found->second;
  }

  /// The file's tensor for a floating one of the network; null to leave that as it is.
  const WeightTensor* wanted(const std::string& name, const Shape& shape) {
    const auto* tensor = take(name);
    if (!selected_(name)) {
      result.excluded.push_back(name);
      return nullptr;
    }
    if (tensor == nullptr || !tensor->floating || tensor->shape != shape) {
      result.problems.push_back(formatted("{}: expected {}, received {}",
                                          name,
                                          nlohmann::json(shape).dump(),
                                          tensor == nullptr ? "none" : shape_of(*tensor)));
      return nullptr;
    }
    result.loaded.push_back(name);
    return tensor;
  }

  /// Some programs store counts as floats, or as [1] in place of a scalar.
  void fill_counter(const std::string& name,
                    std::int64_t size,
                    std::vector<std::int64_t>::iterator target) {
    const auto* tensor = take(name);
    if (tensor == nullptr || !selected_(name)) return;
    const auto counts = tensor->floating ? whole_numbers(tensor->values) : tensor->integers;
    if (std::ssize(counts) != size) {
      result.problems.push_back(formatted("{}: expected {} whole numbers, received {}{}",
                                          name,
                                          size,
                                          shape_of(*tensor),
                                          tensor->floating ? " floats" : ""));
      return;
    }
    std::ranges::copy(counts, target);
    result.loaded.push_back(name);
  }

  const std::function<bool(const std::string&)>& selected_;
  std::map<std::string, const WeightTensor*> file_;
  std::set<std::string> used_;
};

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

std::string frozen_digest(const layout::Layout& layout, const std::vector<float>& values) {
  auto stream = checkpoints::frozen_digest(layout);
  stream.update(values);
  return stream.hex();
}

WeightsFile foreign_weights(const Model& model, const fs::path& path) {
  std::set<std::string> names;
  for (const auto& tensor : models::all_tensors(*model.objective)) names.insert(tensor.name);
  auto file = checkpoints::read_weights(path);
  checkpoints::fit_names(file, names);
  return file;
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

Matching match(const Model& model,
               const WeightsFile& file,
               const std::function<bool(const std::string&)>& selected,
               std::vector<float> weights) {
  const auto& flat = model.flat;
  Matcher matcher(file, selected);
  auto& state = matcher.result.state;
  state.vectors["weights"] = std::move(weights);
  state.vectors["buffers"] = models::to_vector(flat.buffers);
  state.vectors["frozen"] = models::to_file(flat.frozen_layout, flat.frozen);
  state.counters["counters"] = models::to_integers(flat.counters);
  matcher.fill(flat.layout, state.vectors["weights"]);
  matcher.fill_buffers(model.objective->buffers());
  matcher.fill(flat.frozen_layout, state.vectors["frozen"]);
  matcher.list_unused(file);
  if (matcher.found_nothing())
    matcher.result.problems.insert(
        matcher.result.problems.begin(),
        formatted("no name is in both: the file has {}; the network has {}",
                  some_names(file.tensors, &WeightTensor::name),
                  some_names(models::all_tensors(*model.objective), &models::NamedTensor::name)));
  return std::move(matcher.result);
}

std::string first_problems(const Matching& matching) {
  constexpr std::size_t shown = 5;
  const auto& problems = matching.problems;
  auto text = formatted(
      "{}{}", problems.size(), problems.size() == 1 ? " tensor differs" : " tensors differ");
  for (std::size_t i = 0; i < std::min(shown, problems.size()); ++i)
    text += (i == 0 ? ": " : "; ") + problems[i];
  if (problems.size() > shown) text += formatted("; and {} more", problems.size() - shown);
  return text;
}

void put(Model& model, const checkpoints::State& state) {
  auto& flat = model.flat;
  models::assign(flat,
                 state.vectors.at("weights"),
                 state.vectors.at("buffers"),
                 state.counters.at("counters"));
  models::from_file(flat.frozen_layout, state.vectors.at("frozen"), flat.frozen);
  record_frozen_digest(model);
}

}  // namespace dimred::training
