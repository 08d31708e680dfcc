#include "checkpoints/weights_file.h"

#include <algorithm>
#include <set>

#include "checkpoints/checkpoint.h"
#include "checkpoints/finite.h"
#include "checkpoints/mindspore_weights.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/weight_names.h"
#include "support/errors.h"
#include "support/file_state.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

/// All elements of a tensor, by a reader of its type.
template <class Value, class Read>
std::vector<Value> elements_of(const TensorReader& reader, const StoredTensor& stored, Read read) {
  constexpr std::int64_t at_a_time = 1 << 20;
  std::vector<Value> values(stored.elements());
  for (std::int64_t first = 0; first < std::ssize(values); first += at_a_time) {
    const auto count = std::min(at_a_time, std::ssize(values) - first);
    read([&](std::span<std::byte> out) { reader.read(stored, first, out); },
         stored.dtype,
         std::span(values).subspan(first, count));
  }
  return values;
}

WeightTensor values_of(const fs::path& path,
                       std::string_view format,
                       const TensorReader& reader,
                       const StoredTensor& stored) {
  WeightTensor tensor{.name = stored.name, .shape = stored.shape, .role = stored.role};
  tensor.floating = is_float_type(stored.dtype);
  require_environment(tensor.floating || is_integer_type(stored.dtype),
                      "[{}] '{}': \"{}\" needs floats of 16 to 64 bits, signed integers, U8 or "
                      "BOOL, received {}",
                      format,
                      path,
                      stored.name,
                      stored.dtype);
  if (tensor.floating)
    tensor.values = elements_of<float>(reader, stored, read_floats);
  else
    tensor.integers = elements_of<std::int64_t>(reader, stored, read_integers);
  const auto bad = first_not_finite(tensor.values);
  require_environment(
      !bad,
      "[{}] '{}': \"{}\" needs values that are finite in float32, but element {} is not finite",
      format,
      path,
      tensor.name,
      bad.value_or(0));
  return tensor;
}

/// How many different ones are wanted; none when two are the same.
std::size_t found_among(const std::vector<std::string>& names,
                        const std::set<std::string>& wanted) {
  const std::set<std::string> different(names.begin(), names.end());
  if (different.size() < names.size()) return 0;
  return std::ranges::count_if(different,
                               [&](const std::string& name) { return wanted.contains(name); });
}

/// The values of a checkpoint's tensors. Throws std::runtime_error where its files have changed.
WeightsFile weights_from(const fs::path& path, const Checkpoint& checkpoint) {
  WeightsFile file{.format = checkpoint.format, .averaging = checkpoint.averaging};
  const TensorReader reader(checkpoint);
  std::set<std::string> names;
  for (const auto& stored : checkpoint.tensors) {
    if (stored.role == Role::beside) {
      file.left_out.push_back(stored.name);
      continue;
    }
    require_environment(names.insert(stored.name).second,
                        "[{}] '{}': needs different names, received '{}' twice",
                        file.format,
                        path,
                        stored.name);
    file.tensors.push_back(values_of(path, file.format, reader, stored));
  }
  checkpoint.guard.require_unchanged(file.format);
  for (const auto& remark : checkpoint.remarks | std::views::filter(is_about_tensors))
    file.chosen += (file.chosen.empty() ? "" : "; ") + remark;
  return file;
}

}  // namespace

WeightsFile read_weights(const fs::path& path) {
  return weights_from(path, read_checkpoint(path, look(path).kind, {.as_saved = true}));
}

void fit_names(WeightsFile& file, const std::set<std::string>& wanted) {
  std::erase_if(file.tensors, [&](const WeightTensor& tensor) {
    const bool state = tensor.role == Role::training_state && !wanted.contains(tensor.name);
    if (state) file.left_out.push_back(tensor.name);
    return state;
  });
  const auto own = texts_of(file.tensors, &WeightTensor::name);
  auto best = own;
  for (const auto& names : {own, texts_of(own, name_from_mindspore), without_compiled(own)}) {
    const auto prefix = prefix_to_drop(names, wanted);
    auto shorter = names;
    for (auto& name : shorter) name.erase(0, prefix.size());
    if (found_among(shorter, wanted) <= found_among(best, wanted)) continue;
    best = std::move(shorter);
    file.renamed =
        prefix.empty() ? "" : formatted("the prefix {} was dropped from all names", prefix);
    if (prefix.empty() && names != own && names == without_compiled(own))
      file.renamed = "the part _orig_mod. of torch.compile was dropped from all names";
  }
  for (std::size_t i = 0; i < best.size(); ++i) file.tensors[i].name = best[i];
}

std::string remarks_on(const WeightsFile& file) {
  auto text = file.chosen;
  if (!file.renamed.empty()) text += (text.empty() ? "" : "; ") + file.renamed;
  if (!file.left_out.empty())
    text += formatted("{}left out as training state: {}",
                      text.empty() ? "" : "; ",
                      count_and_names(file.left_out));
  return text;
}

}  // namespace dimred::checkpoints
