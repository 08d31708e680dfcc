#include "training/pass_graphs.h"

#include <ATen/CPUGeneratorImpl.h>

#include <stdexcept>

namespace dimred::training {
namespace {

constexpr std::int64_t warm_up = 3;  // batches, in which libraries choose algorithms

torch::Tensor scale_on(torch::Device device, double scale) {
  return torch::full({}, scale, torch::TensorOptions(device).dtype(torch::kFloat64));
}

}  // namespace

torch::Tensor RecordedPass::run(const models::Minibatch& batch, double scale, const Pass& pass) {
  const auto count = batch.labels.size(0);
  if (!graph_ && failure_.empty() && ++seen_[count] > warm_up) record(batch, pass);
  if (!graph_ || count != batch_.labels.size(0))
    return pass(batch, scale_on(batch.labels.device(), scale));
  batch_.images.copy_(batch.images);
  batch_.labels.copy_(batch.labels);
  scale_.fill_(scale);
  graph_->replay();
  return sums_;
}

void RecordedPass::record(const models::Minibatch& batch, const Pass& pass) {
  auto generator = at::detail::getDefaultCPUGenerator();
  const auto before = generator.get_state();
  try {
    auto graph = make_();
    batch_ = {batch.images.clone(), batch.labels.clone()};
    scale_ = scale_on(batch.labels.device(), 1);
    graph->record([this, pass] { sums_ = pass(batch_, scale_); });
    if (!torch::equal(before, generator.get_state()))
      throw std::runtime_error("the network draws random numbers on the host");
    graph_ = std::move(graph);
  } catch (const std::exception& error) {
    failure_ = error.what();
    generator.set_state(before);
    batch_ = {};
    sums_.reset();
  }
}

}  // namespace dimred::training
