#include "merge/adapter_fold.h"

#include <algorithm>
#include <map>
#include <memory>

#include "checkpoints/safetensors.h"
#include "checkpoints/shard_plan.h"
#include "checkpoints/tied.h"
#include "support/errors.h"
#include "support/option_values.h"

namespace dimred::merge {
namespace {

using checkpoints::StoredTensor;
using FoldSide = LoraFactor::Side;

/// Destination of an adapter's tensor: the name in the base.
std::string target_of(const StoredTensor& tensor) {
  constexpr std::string_view inner = ".base_layer";
  if (const auto factor = lora_factor(tensor.name))
    return factor->module + (factor->side == FoldSide::bias ? ".bias" : ".weight");
  auto name = name_in_base(tensor.name);
  if (const auto at = name.find(inner); at != name.npos) name.erase(at, inner.size());
  return name;
}

/// The slot of FoldedTensor that an adapter's tensor fills.
std::size_t& slot_of(FoldedTensor& folded, const StoredTensor& tensor) {
  const auto factor = lora_factor(tensor.name);
  if (!factor) return folded.instead;
  if (factor->side == FoldSide::bias) return folded.bias;
  return factor->side == FoldSide::a ? folded.a : folded.b;
}

/// The base's tensors that an adapter's tensor changes: a factor changes all that lie in one place,
/// as PEFT changes the one weight; what takes the place of a tensor has its own name alone.
std::vector<std::size_t> targets_of(const StoredTensor& tensor,
                                    std::size_t target,
                                    const checkpoints::TiedGroups& tied) {
  const auto factor = lora_factor(tensor.name);
  const bool is_update = factor && factor->side != FoldSide::bias;
  return is_update ? checkpoints::tied_with(tied, target) : std::vector{target};
}

std::int64_t columns_of(const StoredTensor& a) {
  return a.shape[0] == 0 ? 0 : a.elements() / a.shape[0];
}

/// Throws where adapters disagree on how linear layers are stored.
void require_one_orientation(const Adapters& adapters) {
  for (const auto& config : adapters.configs)
    require(config.fan_in_fan_out == adapters.configs.front().fan_in_fan_out,
            "[merge] '{}' and '{}' differ in fan_in_fan_out; fold them one by one",
            adapters.configs.front().file,
            config.file);
}

/// Throws for square weights where the shapes of others contradict fan_in_fan_out, which then says
/// nothing of theirs.
void require_oriented(const std::vector<FoldedTensor>& plan,
                      const std::vector<StoredTensor>& tensors,
                      const Adapters& adapters,
                      const Input& base) {
  const bool said = adapters.configs.front().fan_in_fan_out;
  const StoredTensor* square = nullptr;
  const StoredTensor* other = nullptr;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].a == FoldedTensor::none || lora_factor(tensors[plan[i].a].name)->embedding)
      continue;
    const auto& weight = base.tensors[i];
    const bool is_square = weight.shape.size() == 2 && weight.shape[0] == weight.shape[1];
    if (is_square) square = &weight;
    if (!is_square && weight.shape.size() == 2 && plan[i].transposed != said) other = &weight;
  }
  require(square == nullptr || other == nullptr,
          "[merge] '{}' says fan_in_fan_out {}, \"{}\" is stored the other way: the square "
          "\"{}\" could be either; fold by PEFT",
          adapters.configs.front().file,
          said ? "true" : "false",
          other == nullptr ? "" : printable(other->name),
          square == nullptr ? "" : printable(square->name));
}

/// Whether the base's weight is the transpose of B A.
bool is_transposed(const StoredTensor& weight,
                   const StoredTensor& a,
                   const StoredTensor& b,
                   bool fan_in_fan_out,
                   const Input& base) {
  const auto rows = b.shape[0], columns = columns_of(a);
  const bool bare = b.elements() == b.shape[0] * b.shape[1];  // a convolution's B is 1 x 1
  const bool fits = bare && !weight.shape.empty() && weight.shape[0] == rows &&
                    weight.elements() == rows * columns;
  const bool turned = bare && weight.shape == std::vector{columns, rows};
  const bool wants_turned = lora_factor(a.name)->embedding || fan_in_fan_out;
  require(fits || turned,
          "[merge] '{}' has \"{}\" in a shape that is not of the update {} x {}",
          base.path,
          printable(weight.name),
          rows,
          columns);
  return fits && turned ? wants_turned : turned;
}

/// Factors of a product: left [rows, rank], right [rank, columns], row by row.
struct UpdateProduct {
  std::int64_t rank = 0, columns = 0;
  std::vector<double> left, right;

  /// Adds its elements from `first` on.
  void add_to(std::int64_t first, std::span<double> sums) const {
    for (std::int64_t done = 0; done < std::ssize(sums);) {
      const auto row = (first + done) / columns, column = (first + done) % columns;
      const auto count = std::min(columns - column, std::ssize(sums) - done);
      for (std::int64_t k = 0; k < rank; ++k) {
        const double factor = left[row * rank + k];
        const double* from = right.data() + k * columns + column;
        double* to = sums.data() + done;
        for (std::int64_t j = 0; j < count; ++j) to[j] += factor * from[j];
      }
      done += count;
    }
  }
};

std::vector<double> transposed(const std::vector<double>& values, std::int64_t rows) {
  const auto columns = rows == 0 ? 0 : std::ssize(values) / rows;
  std::vector<double> turned(values.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) turned[j * rows + i] = values[i * columns + j];
  return turned;
}

/// The tensors of a part's inputs times their shares.
class Shares {
 public:
  Shares(const Part& part, const std::vector<Input>& inputs, const Adapters& adapters)
      : part_(&part), inputs_(&inputs), adapters_(&adapters) {}

  /// The values of one input.
  std::vector<double> of(std::size_t tensor, std::size_t place) const {
    const auto input = part_->inputs[place];
    const auto& stored = tensor_of(*inputs_, *adapters_, tensor, input);
    std::vector<double> values(stored.elements());
    const auto share = share_of(*part_, *adapters_, *inputs_, tensor, place);
    add_tensor((*inputs_)[input], stored, share, true, values);
    return values;
  }

  std::vector<double> summed(std::size_t tensor) const {
    auto sums = of(tensor, 0);
    for (std::size_t place = 1; place < part_->inputs.size(); ++place) {
      const auto values = of(tensor, place);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
    }
    return sums;
  }

  UpdateProduct product(const FoldedTensor& folded, std::size_t place) const {
    const auto& a = tensor_of(*inputs_, *adapters_, folded.a, part_->inputs[place]);
    const auto rank = a.shape[0];
    auto right = of(folded.a, place), left = of(folded.b, place);
    if (!folded.transposed) return {rank, columns_of(a), std::move(left), std::move(right)};
    const auto rows = rank == 0 ? 0 : std::ssize(left) / rank;
    return {rank, rows, transposed(right, rank), transposed(left, rows)};
  }

  std::size_t count() const { return part_->inputs.size(); }

 private:
  const Part* part_;
  const std::vector<Input>* inputs_;
  const Adapters* adapters_;
};

Addend addend_for(const Shares& shares, const FoldedTensor& folded) {
  constexpr auto none = FoldedTensor::none;
  std::vector<double> instead, added;
  std::vector<UpdateProduct> products;
  if (folded.instead != none) instead = shares.summed(folded.instead);
  if (folded.bias != none) added = shares.summed(folded.bias);
  if (folded.a != none)
    for (std::size_t place = 0; place < shares.count(); ++place)
      products.push_back(shares.product(folded, place));
  if (instead.empty() && added.empty() && products.empty()) return {};
  return [instead = std::move(instead), added = std::move(added), products = std::move(products)](
             std::int64_t first, std::span<double> sums) {
    if (!instead.empty()) std::copy_n(instead.begin() + first, sums.size(), sums.begin());
    for (std::size_t i = 0; i < sums.size() && !added.empty(); ++i) sums[i] += added[first + i];
    for (const auto& product : products) product.add_to(first, sums);
  };
}

void require_fits(const FoldedTensor& folded,
                  const StoredTensor& target,
                  const std::vector<Input>& inputs,
                  const Input& base) {
  const auto& tensors = inputs.front().tensors;
  require(checkpoints::is_summed(target),
          "[merge] '{}' has \"{}\" as {}, into which no adapter can be folded",
          base.path,
          printable(target.name),
          target.dtype);
  for (const auto place : {folded.bias, folded.instead})
    require(place == FoldedTensor::none || tensors[place].shape == target.shape,
            "[merge] '{}' and '{}' have \"{}\" in different shapes",
            base.path,
            inputs.front().path,
            printable(target.name));
}

}  // namespace

std::vector<FoldedTensor> fold_plan(const std::vector<Input>& inputs,
                                    const Adapters& adapters,
                                    const Input& base) {
  const auto& tensors = inputs.front().tensors;
  std::map<std::string_view, std::size_t> named;
  for (std::size_t i = 0; i < base.tensors.size(); ++i) named[base.tensors[i].name] = i;
  std::vector<FoldedTensor> plan(base.tensors.size());
  const auto tied = checkpoints::tied_groups(base.tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto target = named.find(target_of(tensors[i]));
    require(target != named.end(),
            "[merge] '{}' has no \"{}\", which '{}' changes by \"{}\"",
            base.path,
            printable(target_of(tensors[i])),
            inputs.front().path,
            printable(tensors[i].name));
    for (const auto place : targets_of(tensors[i], target->second, tied)) {
      auto& slot = slot_of(plan[place], tensors[i]);
      require(slot == FoldedTensor::none,
              "[merge] '{}' has two updates of one tied weight, \"{}\"",
              inputs.front().path,
              printable(tensors[i].name));
      slot = i;
    }
  }
  for (std::size_t i = 0; i < plan.size(); ++i) {
    auto& folded = plan[i];
    if (folded.a != FoldedTensor::none)
      folded.transposed = is_transposed(base.tensors[i],
                                        tensors[folded.a],
                                        tensors[folded.b],
                                        adapters.configs.front().fan_in_fan_out,
                                        base);
    const bool changed = folded.a != FoldedTensor::none || folded.bias != FoldedTensor::none ||
                         folded.instead != FoldedTensor::none;
    if (changed) require_fits(folded, base.tensors[i], inputs, base);
  }
  require_one_orientation(adapters);
  require_oriented(plan, tensors, adapters, base);
  return plan;
}

std::function<Addend(std::size_t)> addend_of(const Part& part,
                                             const std::vector<Input>& inputs,
                                             const Adapters& adapters,
                                             const std::vector<FoldedTensor>& plan) {
  const Shares shares(part, inputs, adapters);
  return [shares, plan](std::size_t tensor) { return addend_for(shares, plan[tensor]); };
}

}  // namespace dimred::merge
