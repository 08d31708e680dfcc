#include "merge/adapter_fold.h"

#include <algorithm>

#include "checkpoints/float_sums.h"
#include "checkpoints/low_rank_update.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/shard_plan.h"
#include "support/errors.h"
#include "support/printable.h"

namespace dimred::merge {
namespace {

using checkpoints::LoraFold;
using checkpoints::LoraUpdate;
using checkpoints::LowRankUpdate;

/// Throws where adapters disagree on how linear layers are stored.
void require_one_orientation(const Adapters& adapters) {
  for (const auto& config : adapters.configs)
    require(config.fan_in_fan_out == adapters.configs.front().fan_in_fan_out,
            "[merge] '{}' and '{}' differ in fan_in_fan_out; fold these adapters one by one",
            adapters.configs.front().file,
            config.file);
}

/// The tensors of a part's inputs times their shares.
class Shares {
 public:
  Shares(const Part& part, const std::vector<Input>& inputs, const Adapters& adapters)
      : part_(&part), inputs_(&inputs), adapters_(&adapters) {}

  /// Elements of one input from `first` on.
  std::vector<double> of(std::size_t tensor,
                         std::size_t place,
                         std::int64_t first,
                         std::int64_t count) const {
    std::vector<double> values(count);
    const auto share = share_of(*part_, *adapters_, *inputs_, tensor, place);
    add_elements(*inputs_, *adapters_, tensor, part_->inputs[place], first, share, true, values);
    return values;
  }

  /// The sum of the elements of all inputs.
  std::vector<double> summed(std::size_t tensor, std::int64_t first, std::int64_t count) const {
    auto sums = of(tensor, 0, first, count);
    for (std::size_t place = 1; place < part_->inputs.size(); ++place) {
      const auto values = of(tensor, place, first, count);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
    }
    return sums;
  }

  LowRankUpdate product(const LoraUpdate& update, std::size_t place) const {
    const auto& a = tensor_of(*inputs_, *adapters_, update.a, part_->inputs[place]);
    return checkpoints::low_rank_update(
        whole(update.a, place), whole(update.b, place), a.shape[0], update.transposed);
  }

  std::size_t count() const { return part_->inputs.size(); }

 private:
  std::vector<double> whole(std::size_t tensor, std::size_t place) const {
    const auto& stored = tensor_of(*inputs_, *adapters_, tensor, part_->inputs[place]);
    return of(tensor, place, 0, stored.elements());
  }

  const Part* part_;
  const std::vector<Input>* inputs_;
  const Adapters* adapters_;
};

Addend addend_for(const Shares& shares, const LoraFold& fold) {
  if (!fold.changes()) return {};
  std::vector<LowRankUpdate> products;
  for (const auto& update : fold.updates)
    for (std::size_t place = 0; place < shares.count(); ++place)
      products.push_back(shares.product(update, place));
  return [shares, instead = fold.instead, bias = fold.bias, products = std::move(products)](
             std::int64_t first, std::span<double> sums) {
    if (instead) std::ranges::copy(shares.summed(*instead, first, std::ssize(sums)), sums.begin());
    if (bias) {
      const auto added = shares.summed(*bias, first, std::ssize(sums));
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += added[i];
    }
    for (const auto& product : products) add_update(product, first, sums);
  };
}

/// The tensor of the adapter that a part copies from, in the base's type.
Replacement replacement_for(const Part& part,
                            const std::vector<Input>& inputs,
                            const Adapters& adapters,
                            std::size_t tensor,
                            const std::string& dtype) {
  return [&inputs, &adapters, tensor, dtype, input = part.copied_from](
             std::int64_t first, std::span<std::byte> stored) {
    const auto& from = tensor_of(inputs, adapters, tensor, input);
    if (from.dtype == dtype) return adapters.readers[input].read(from, first, stored);
    std::vector<double> values(8 * stored.size() / checkpoints::bits_of(dtype));
    add_elements(inputs, adapters, tensor, input, first, 1, true, values);
    const auto bad = checkpoints::store_rounded(dtype, values, 1, stored);
    require(!bad,
            "[merge] '{}': \"{}\" at element {} is beyond the range of {}",
            inputs[input].path,
            printable(from.name),
            first + bad.value_or(0),
            dtype);
  };
}

}  // namespace

checkpoints::LoraFolds fold_plan(const std::vector<Input>& inputs,
                                 const Adapters& adapters,
                                 Input& base) {
  require_one_orientation(adapters);
  auto plan = checkpoints::lora_folds(inputs.front(), adapters.configs.front(), base);
  for (std::size_t i = 0; i < plan.tensors.size(); ++i)
    require((plan.tensors[i].updates.empty() && !plan.tensors[i].bias) ||
                checkpoints::is_summed(base.tensors[i]),
            "[merge] '{}' has \"{}\" as {}, but dimred cannot fold an adapter into this type",
            base.path,
            printable(base.tensors[i].name),
            base.tensors[i].dtype);
  return plan;
}

std::function<Addend(std::size_t)> addend_of(const Part& part,
                                             const std::vector<Input>& inputs,
                                             const Adapters& adapters,
                                             const checkpoints::LoraFolds& plan) {
  const Shares shares(part, inputs, adapters);
  return [shares, &plan](std::size_t tensor) { return addend_for(shares, plan.tensors[tensor]); };
}

std::function<Replacement(std::size_t)> replacement_of(const Part& part,
                                                       const std::vector<Input>& inputs,
                                                       const Adapters& adapters,
                                                       const checkpoints::LoraFolds& plan,
                                                       const Input& base) {
  return [&](std::size_t tensor) {
    const auto& instead = plan.tensors[tensor].instead;
    return instead ? replacement_for(part, inputs, adapters, *instead, base.tensors[tensor].dtype)
                   : Replacement();
  };
}

}  // namespace dimred::merge
