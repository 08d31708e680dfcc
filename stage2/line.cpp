#include "stage2/line.h"

#include "stage2/projection_device.h"

namespace dimred::stage2 {
namespace {

/// u on this rank's own columns, on the host.
torch::Tensor direction_on_host(const Subspace& subspace,
                                const InsideStep& inside,
                                const OutsideStep& outside) {
  const auto [forward, projected] =  // P'd, P'g_k
      back_project(subspace, inside.direction, inside.gradient, outside.gradient);
  auto m = outside.momentum;
  m.mul_(outside.gamma).add_(outside.gradient).sub_(projected);
  return outside.alpha > 0 ? forward - outside.alpha * m : forward;
}

torch::Tensor part(const torch::Tensor& vector, const layout::ColumnRange& columns) {
  return vector.defined() ? vector.narrow(0, columns.begin, columns.size()) : vector;
}

/// All of `whole` with the blocks' rows of P, and between the blocks, where P is zero, without.
void advance_blocks(const Subspace& subspace,
                    const InsideStep& inside,
                    const device::Advance& whole) {
  const auto over = [&](const layout::ColumnRange& columns,
                        const torch::Tensor& basis,
                        std::size_t row) {
    auto to = whole;
    for (auto* vector : {&to.gradient, &to.momentum, &to.direction, &to.weights, &to.start})
      *vector = part(*vector, columns);
    const auto k = basis.defined() ? static_cast<std::size_t>(basis.size(0)) : 0;
    device::advance(basis, inside.direction.subspan(row, k), inside.gradient.subspan(row, k), to);
  };
  std::int64_t done = 0;
  std::size_t row = 0;
  for (const auto& [columns, basis] : subspace.blocks) {
    if (done < columns.begin) over({done, columns.begin}, {}, row);
    over(columns, basis, row);
    done = std::max(done, columns.end);
    row += static_cast<std::size_t>(basis.size(0));
  }
  if (done < subspace.own_columns) over({done, subspace.own_columns}, {}, row);
}

}  // namespace

void Line::move_to(double t) {
  if (t == t_) return;
  t_ = t;
  if (t == 0) {
    weights_.copy_(start_);
  } else {
    torch::add_out(weights_, start_, direction_, t);
  }
}

Line descent_line(const Place& place,
                  const InsideStep& inside,
                  const OutsideStep& outside,
                  const torch::Tensor& weights) {
  auto& communicator = place.communicator;
  if (outside.gradient.is_cpu()) {
    const auto own = direction_on_host(place.subspace, inside, outside);
    return {weights, all_gather(communicator, own, place.columns)};
  }
  device::Advance to{.gradient = outside.gradient,
                     .momentum = outside.momentum,
                     .gamma = outside.gamma,
                     .alpha = outside.alpha,
                     .direction = torch::empty_like(outside.gradient)};
  const bool alone = communicator.size() == 1 && weights.numel() == outside.gradient.numel();
  if (alone) {
    to.weights = weights;
    to.start = torch::empty_like(weights);
  }
  advance_blocks(place.subspace, inside, to);
  if (alone) return {weights, to.direction, to.start, 1};
  return {weights, all_gather(communicator, to.direction, place.columns)};
}

}  // namespace dimred::stage2
