#include "stage2/weight_decay.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "optimizers/segments.h"
#include "stage2/projection.h"

namespace dimred::stage2 {
namespace {

using engine::Model;
using engine::Setup;

double sum_of(const engine::HostCopy& parts) {
  const auto& values = parts.get();
  const auto* first = values.const_data_ptr<double>();
  return std::accumulate(first, first + values.numel(), 0.0);
}

/// The columns, and whether they decay.
auto ranges_of(const layout::Layout& layout, const method::PenaltyOptions& penalty) {
  auto ranges = optimizers::decay_ranges(layout);
  if (penalty.weight_decay_all)
    for (auto& range : ranges) range.decay = true;
  return ranges;
}

/// |w|^2 over the columns in `range` that decay, by its parts.
engine::HostCopy start_decaying_square(const Model& model,
                                       const method::PenaltyOptions& penalty,
                                       const layout::ColumnRange& range) {
  std::vector<Product> products;
  for (const auto& [columns, decay] : ranges_of(model.flat.layout, penalty)) {
    const auto begin = std::max(columns.begin, range.begin);
    const auto end = std::min(columns.end, range.end);
    if (!decay || begin >= end) continue;
    const auto w = model.flat.weights.narrow(0, begin, end - begin);
    products.push_back({.basis = {}, .vector = w, .others = {w}});
  }
  return start_project(products);
}

}  // namespace

double PendingDecay::get() const {
  if (weight_decay == 0) return 0;
  std::array<double, 1> others{};
  if (sharded.exists()) {
    others[0] = sum_of(sharded);
    communicator->sum(others);
  }
  return weight_decay * (sum_of(replicated) + others[0]) / 2;
}

PendingDecay start_decay_loss(const Setup& setup, const method::PenaltyOptions& penalty) {
  PendingDecay pending{.weight_decay = penalty.weight_decay, .communicator = setup.communicator};
  if (penalty.weight_decay == 0) return pending;
  const auto& layout = setup.model.flat.layout;
  pending.replicated = start_decaying_square(setup.model, penalty, {0, layout.replicated_size});
  if (layout.sharded())
    pending.sharded = start_decaying_square(setup.model, penalty, setup.model.columns.sharded);
  return pending;
}

void add_decay(const Model& model,
               const method::PenaltyOptions& penalty,
               torch::Tensor& own_gradient) {
  if (penalty.weight_decay == 0) return;
  const auto ranges = ranges_of(model.flat.layout, penalty);
  std::int64_t before = 0;  // own columns of earlier ranges
  for (const auto& own : model.columns.own.memory) {
    for (const auto& [columns, decay] : ranges) {
      const auto begin = std::max(columns.begin, own.begin);
      const auto size = std::min(columns.end, own.end) - begin;
      if (!decay || size <= 0) continue;
      own_gradient.narrow(0, before + begin - own.begin, size)
          .add_(model.flat.weights.narrow(0, begin, size), penalty.weight_decay);
    }
    before += own.size();
  }
}

}  // namespace dimred::stage2
