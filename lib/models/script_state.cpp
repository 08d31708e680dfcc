#include "models/script_state.h"

#include <algorithm>
#include <set>

namespace dimred::models {
namespace {

bool is_same(const torch::IValue& a, const torch::IValue& b);

template <class Values>
bool are_same(const Values& a, const Values& b) {
  return std::ranges::equal(a, b, is_same);
}

bool is_same_tensor(const torch::Tensor& a, const torch::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  return torch::equal(a, b) || (a.is_floating_point() && torch::allclose(a, b, 0, 0, true));
}

/// By values all through: a container's own comparison takes tensors for the same by their place.
bool is_same(const torch::IValue& a, const torch::IValue& b) {
  if (a.isTensor() && b.isTensor()) return is_same_tensor(a.toTensor(), b.toTensor());
  if (a.isList() && b.isList()) return are_same(a.toListRef(), b.toListRef());
  if (a.isTuple() && b.isTuple())
    return are_same(a.toTupleRef().elements().asArrayRef(), b.toTupleRef().elements().asArrayRef());
  if (a.isObject() && b.isObject()) return are_same(a.toObject()->slots(), b.toObject()->slots());
  if (a.isGenericDict() && b.isGenericDict()) {
    const auto dictionary = a.toGenericDict(), other = b.toGenericDict();
    return dictionary.size() == other.size() &&
           std::all_of(dictionary.begin(), dictionary.end(), [&](const auto& entry) {
             return other.contains(entry.key()) && is_same(entry.value(), other.at(entry.key()));
           });
  }
  return c10::_fastEqualsForContainer(a, b);
}

}  // namespace

void UnsavedState::collect(const torch::jit::Module& module, const std::string& prefix) {
  std::set<std::string> saved{"training"};
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) {
    saved.insert(buffer.name);
    buffers_[prefix + buffer.name] = buffer.value.unsafeGetTensorImpl();
  }
  for (const auto& item : module.named_parameters(/*recurse=*/false)) saved.insert(item.name);
  for (const auto& item : module.named_attributes(/*recurse=*/false)) {
    if (!saved.contains(item.name) && !item.value.isModule())
      attributes_[prefix + item.name] = item.value.deepcopy();
  }
  for (const auto& child : module.named_children()) collect(child.value, prefix + child.name + '.');
}

std::string UnsavedState::difference(const UnsavedState& after) const {
  for (const auto& [name, value] : attributes_)
    if (!is_same(value, after.attributes_.at(name))) return name;
  for (const auto& [name, tensor] : buffers_)
    if (tensor != after.buffers_.at(name)) return name;
  return "";
}

}  // namespace dimred::models
