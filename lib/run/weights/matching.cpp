#include "run/weights/matching.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "engine/weights/frozen.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::run {
namespace {

namespace fs = std::filesystem;
using checkpoints::WeightsFile;
using checkpoints::WeightTensor;
using Shape = std::vector<std::int64_t>;

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

WeightsFile foreign_weights(const engine::Model& model, const fs::path& path) {
  std::set<std::string> names;
  for (const auto& tensor : models::all_tensors(*model.objective)) names.insert(tensor.name);
  auto file = checkpoints::read_weights(path);
  checkpoints::fit_names(file, names);
  return file;
}

Matching match(const engine::Model& model,
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
        formatted(
            "the file and the network have no name in common: the file has {}; the network has {}",
            first_names(texts_of(file.tensors, &WeightTensor::name), 3),
            first_names(texts_of(models::all_tensors(*model.objective), &models::NamedTensor::name),
                        3)));
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

void put(engine::Model& model, const checkpoints::State& state) {
  auto& flat = model.flat;
  models::assign(flat,
                 state.vectors.at("weights"),
                 state.vectors.at("buffers"),
                 state.counters.at("counters"));
  models::from_file(flat.frozen_layout, state.vectors.at("frozen"), flat.frozen);
  engine::record_frozen_digest(model);
}

}  // namespace dimred::run
