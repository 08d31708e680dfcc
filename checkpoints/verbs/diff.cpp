#include "checkpoints/verbs/diff.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "checkpoints/checkpoint.h"
#include "checkpoints/name_pattern.h"
#include "checkpoints/verbs/diff_hints.h"
#include "checkpoints/verbs/diff_pass.h"
#include "checkpoints/verbs/diff_sides.h"
#include "checkpoints/verbs/number_types.h"
#include "checkpoints/weight_names.h"
#include "support/errors.h"
#include "support/file_state.h"
#include "support/text.h"

namespace dimred::verbs {
namespace {

namespace fs = std::filesystem;
using checkpoints::Checkpoint;
using checkpoints::StoredBox;
using checkpoints::StoredTensor;

/// The tensors that the expressions choose, by the names that the checkpoint has.
std::vector<const StoredTensor*> chosen_of(const Checkpoint& checkpoint,
                                           checkpoints::NameChoice& choice) {
  std::vector<const StoredTensor*> chosen;
  for (const auto& tensor : checkpoint.tensors)
    if (choice.takes(tensor.name)) chosen.push_back(&tensor);
  return chosen;
}

/// Places in A's files for each of B's files: the same file under any name, or none.
std::vector<std::optional<std::size_t>> files_of_a(const Checkpoint& a, const Checkpoint& b) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> places;
  for (std::size_t i = 0; i < a.files.size(); ++i)
    if (const auto state = file_state(a.files[i]))
      places.emplace(std::pair(state->device, state->number), i);
  std::vector<std::optional<std::size_t>> same;
  for (const auto& file : b.files) {
    const auto state = file_state(file);
    const auto found = state ? places.find({state->device, state->number}) : places.end();
    same.push_back(found == places.end() ? std::nullopt : std::optional(found->second));
  }
  return same;
}

bool lie_in_one_place(const StoredTensor& a,
                      const StoredTensor& b,
                      const std::vector<std::optional<std::size_t>>& files) {
  return a.dtype == b.dtype &&
         std::ranges::equal(a.boxes, b.boxes, [&](const StoredBox& one, StoredBox other) {
           if (!files[other.file]) return false;
           other.file = *files[other.file];
           return one == other;
         });
}

DiffSide side_of(const StoredTensor& tensor) { return {tensor.name, tensor.dtype, tensor.shape}; }

DiffStatus status_of(const TensorDiff& tensor) {
  if (tensor.a.shape != tensor.b.shape) return DiffStatus::shape;
  if (tensor.a.dtype != tensor.b.dtype) return DiffStatus::dtype;
  return tensor.distance.different == 0 ? DiffStatus::same : DiffStatus::different;
}

/// Compares the tensors of `difference.tensors`, which are those of `pairs`.
void compare_pairs(const Checkpoint& a,
                   const Checkpoint& b,
                   const TensorPairs& pairs,
                   const DiffOptions& options,
                   Difference& difference) {
  const auto files = files_of_a(a, b);
  TensorPairs read;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& [one, other] = pairs[i];
    if (one->shape != other->shape) continue;
    difference.bytes += one->bytes();
    auto& distance = difference.tensors[i].distance;
    distance = compare({one->dtype, {}}, {other->dtype, {}});
    distance.elements = one->elements();
    if (distance.different && !lie_in_one_place(*one, *other, files)) {
      read.push_back(pairs[i]);
      places.push_back(i);
    }
  }
  const auto distances = distances_of(a, b, read, options);
  for (std::size_t i = 0; i < places.size(); ++i)
    difference.tensors[places[i]].distance = distances[i];
  for (auto& tensor : difference.tensors) tensor.status = status_of(tensor);
}

void remark_on(const Checkpoint& checkpoint,
               std::string_view side,
               std::vector<std::string>& remarks) {
  for (const auto& remark : checkpoint.remarks)
    remarks.push_back(formatted("{}: {}", side, remark));
  if (!checkpoint.left_out.empty())
    remarks.push_back(formatted("{}: not compared, as training state: {}",
                                side,
                                checkpoints::count_and_names(checkpoint.left_out)));
}

/// Says which types of differing tensors a tolerance does not reach.
void remark_on_tolerance(const DiffOptions& options, Difference& difference) {
  if (!options.tolerance.any()) return;
  std::set<std::string> types;
  for (const auto& tensor : difference.tensors)
    if (tensor.status == DiffStatus::different && number_type(tensor.a.dtype) == nullptr)
      types.insert(tensor.a.dtype);
  if (!types.empty())
    difference.remarks.push_back(
        formatted("the tolerances have no effect on tensors of type {}: dimred compares their bits",
                  joined(types, ", ")));
}

/// Finds the partners by name, and puts all tensors into the difference.
TensorPairs paired(const Checkpoint& a,
                   const Checkpoint& b,
                   const DiffOptions& options,
                   Difference& difference) {
  checkpoints::NameChoice choice(options.include, options.exclude);
  const auto chosen_a = chosen_of(a, choice), chosen_b = chosen_of(b, choice);
  const bool all = options.include.empty() && options.exclude.empty();
  require(all || !chosen_a.empty() || !chosen_b.empty(),
          "[diff] --include and --exclude leave no tensor of A or B");
  if (auto remark = choice.remark(); !remark.empty())
    difference.remarks.push_back(std::move(remark));
  std::map<std::string_view, const StoredTensor*> partners;
  for (const auto* tensor : chosen_b) partners.emplace(tensor->name, tensor);
  auto names = texts_of(chosen_a, &StoredTensor::name);
  names = renamed(names, options.renames, "diff", " of A", difference.remarks);
  TensorPairs pairs;
  for (std::size_t i = 0; i < chosen_a.size(); ++i) {
    const auto* tensor = chosen_a[i];
    const auto found = partners.find(names[i]);
    if (found == partners.end()) {
      difference.only_a.push_back(side_of(*tensor));
      continue;
    }
    pairs.emplace_back(tensor, found->second);
    difference.tensors.push_back({side_of(*tensor), side_of(*found->second)});
    partners.erase(found);
  }
  for (const auto* tensor : chosen_b)
    if (partners.contains(tensor->name)) difference.only_b.push_back(side_of(*tensor));
  return pairs;
}

}  // namespace

std::string name_of(DiffStatus status) {
  switch (status) {
    case DiffStatus::same:
      return "same";
    case DiffStatus::different:
      return "different";
    case DiffStatus::dtype:
      return "dtype";
    case DiffStatus::shape:
      return "shape";
  }
  return {};
}

Difference diff(const fs::path& a, const fs::path& b, const DiffOptions& options) {
  const auto [one, other] = open_sides(a, b, options.take);
  Difference difference{.a = a, .b = b, .format_a = one.format, .format_b = other.format};
  remark_on(one, "A", difference.remarks);
  remark_on(other, "B", difference.remarks);
  require(!one.tensors.empty() || !other.tensors.empty() || one.left_out.empty() ||
              other.left_out.empty(),
          "[diff] needs weights to compare, but dimred reads all tensors of '{}' and '{}' as "
          "training state: {}; give files of weights",
          a,
          b,
          checkpoints::count_and_names(one.left_out));
  const auto pairs = paired(one, other, options, difference);
  compare_pairs(one, other, pairs, options, difference);
  remark_on_tolerance(options, difference);
  one.guard.require_unchanged("diff");
  other.guard.require_unchanged("diff");
  const auto is_same = [](const TensorDiff& tensor) { return tensor.status == DiffStatus::same; };
  difference.same = difference.only_a.empty() && difference.only_b.empty() &&
                    std::ranges::all_of(difference.tensors, is_same);
  if (const auto hint = rename_hint(texts_of(difference.only_a, &DiffSide::name),
                                    texts_of(difference.only_b, &DiffSide::name));
      !hint.empty())
    difference.remarks.push_back(hint);
  return difference;
}

}  // namespace dimred::verbs
