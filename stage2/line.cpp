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
  const bool on_host = outside.gradient.is_cpu();
  const bool alone = place.communicator.size() == 1 && weights.numel() == outside.gradient.numel();
  if (on_host || !alone) {
    const auto own = on_host ? direction_on_host(place.subspace, inside, outside)
                             : device::advance(place.subspace, inside, outside);
    return {weights, all_gather(place.communicator, own, place.columns)};
  }
  auto start = torch::empty_like(weights);
  auto direction = device::advance(place.subspace, inside, outside, weights, start);
  return {weights, std::move(direction), std::move(start), 1};
}

}  // namespace dimred::stage2
