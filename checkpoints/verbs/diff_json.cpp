#include "checkpoints/verbs/diff_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

namespace dimred::verbs {
namespace {

using DiffJson = nlohmann::ordered_json;

template <class Value>
DiffJson one_or_both(const Value& a, const Value& b) {
  if (a == b) return a;
  return DiffJson::array({a, b});
}

template <class Value>
DiffJson value_or_null(const std::optional<Value>& value) {
  if (!value) return nullptr;
  if constexpr (std::is_same_v<Value, double>)
    if (!std::isfinite(*value)) return nullptr;
  return *value;
}

DiffJson json_of(const TensorDiff& tensor) {
  const auto& distance = tensor.distance;
  const bool paired = tensor.status != DiffStatus::shape;
  const auto if_paired = [&](const auto& value) {
    return paired ? value_or_null(value) : DiffJson();
  };
  return {{"name", tensor.b.name},
          {"status", name_of(tensor.status)},
          {"dtype", one_or_both(tensor.a.dtype, tensor.b.dtype)},
          {"shape", one_or_both(tensor.a.shape, tensor.b.shape)},
          {"elements", paired ? DiffJson(distance.elements) : DiffJson()},
          {"different", if_paired(distance.different)},
          {"max_abs", if_paired(distance.max_abs)},
          {"max_rel", if_paired(distance.max_rel)},
          {"max_ulp", if_paired(distance.max_ulp)},
          {"cosine", if_paired(distance.cosine())}};
}

DiffJson names_json(const std::vector<DiffSide>& sides) {
  auto names = DiffJson::array();
  for (const auto& side : sides) names.push_back(side.name);
  return names;
}

}  // namespace

std::string to_json(const Difference& difference) {
  DiffJson json{{"same", difference.same},
                {"only_a", names_json(difference.only_a)},
                {"only_b", names_json(difference.only_b)},
                {"tensors", DiffJson::array()}};
  auto& tensors = json["tensors"];
  for (const auto& tensor : difference.tensors) tensors.push_back(json_of(tensor));
  constexpr bool ascii = true;  // names hold no commands to a terminal
  return json.dump(-1, ' ', ascii, DiffJson::error_handler_t::replace);
}

}  // namespace dimred::verbs
