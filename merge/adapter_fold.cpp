#include "merge/adapter_fold.h"

#include <algorithm>

#include "checkpoints/shard_plan.h"
#include "support/errors.h"
#include "support/printable.h"

namespace dimred::merge {
namespace {

using checkpoints::LoraFold;
using checkpoints::LoraUpdate;

std::int64_t columns_of(const checkpoints::StoredTensor& a) {
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

  UpdateProduct product(const LoraUpdate& update, std::size_t place) const {
    const auto& a = tensor_of(*inputs_, *adapters_, update.a, part_->inputs[place]);
    const auto rank = a.shape[0];
    auto right = whole(update.a, place), left = whole(update.b, place);
    if (!update.transposed) return {rank, columns_of(a), std::move(left), std::move(right)};
    const auto rows = rank == 0 ? 0 : std::ssize(left) / rank;
    return {rank, rows, transposed(right, rank), transposed(left, rows)};
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
  std::vector<UpdateProduct> products;
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
    for (const auto& product : products) product.add_to(first, sums);
  };
}

}  // namespace

checkpoints::LoraFolds fold_plan(const std::vector<Input>& inputs,
                                 const Adapters& adapters,
                                 Input& base) {
  require_one_orientation(adapters);
  auto plan = checkpoints::lora_folds(inputs.front(), adapters.configs.front(), base);
  for (std::size_t i = 0; i < plan.tensors.size(); ++i)
    require(!plan.tensors[i].changes() || checkpoints::is_summed(base.tensors[i]),
            "[merge] '{}' has \"{}\" as {}, and an adapter cannot be folded into this type",
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

}  // namespace dimred::merge
