#include "training/pass_graphs.h"

#include <stdexcept>

namespace dimred::training {
namespace {

constexpr std::int64_t warm_up = 3;  // batches: libraries choose algorithms and take workspaces

torch::Tensor scale_on(torch::Device device, double scale) {
  return torch::full({}, scale, torch::TensorOptions(device).dtype(torch::kFloat64));
}

}  // namespace

torch::Tensor RecordedPass::run(const models::Minibatch& batch, double scale, const Pass& pass) {
  const auto count = batch.labels.size(0);
  const bool fits = graph_ && count == batch_.labels.size(0);
  const bool later = graph_ || !failure_.empty() || ++seen_[count] <= warm_up;
  if (!fits && !later) record(batch, pass);
  if (!graph_ || count != batch_.labels.size(0))
    return pass(batch, scale_on(batch.labels.device(), scale));
  batch_.images.copy_(batch.images);
  batch_.labels.copy_(batch.labels);
  scale_.fill_(scale);
  graph_->replay();
  return sums_;
}

void RecordedPass::record(const models::Minibatch& batch, const Pass& pass) {
  auto graph = make_();
  batch_ = {batch.images.clone(), batch.labels.clone()};
  scale_ = scale_on(batch.labels.device(), 1);
  try {
    graph->record([this, pass] { sums_ = pass(batch_, scale_); });
    graph_ = std::move(graph);
  } catch (const std::runtime_error& error) {
    failure_ = error.what();
    batch_ = {};
  }
}

}  // namespace dimred::training
