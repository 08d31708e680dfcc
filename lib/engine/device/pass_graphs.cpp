#include "engine/device/pass_graphs.h"

#include <ATen/CPUGeneratorImpl.h>

#include <stdexcept>

namespace dimred::engine {
namespace {

constexpr std::int64_t warm_up = 3;  // times, in which libraries choose algorithms

}  // namespace

torch::Tensor scale_on(torch::Device device, double scale) {
  return torch::full({}, scale, torch::TensorOptions(device).dtype(torch::kFloat64));
}

void RecordedWork::run(const std::function<void()>& work) {
  if (!graph_ && ++done_ > warm_up) record(work);
  if (graph_) {
    graph_->replay();
  } else {
    work();
  }
}

bool RecordedWork::record(const std::function<void()>& work) {
  if (!failure_.empty()) return false;
  auto generator = at::detail::getDefaultCPUGenerator();
  const auto before = generator.get_state();
  try {
    auto graph = make_();
    graph->record(work);
    if (!torch::equal(before, generator.get_state()))
      throw std::runtime_error("the network draws random numbers on the host");
    graph_ = std::move(graph);
  } catch (const std::exception& error) {
    failure_ = error.what();
    generator.set_state(before);
  }
  return is_recorded();
}

torch::Tensor RecordedPass::run(const models::Minibatch& batch, double scale, const Pass& pass) {
  const auto count = batch.labels.size(0);
  if (!is_recorded() && ++seen_[count] > warm_up) record(batch, pass);
  if (!is_recorded() || count != batch_.labels.size(0))
    return pass(batch, scale_on(batch.labels.device(), scale));
  batch_.images.copy_(batch.images);
  batch_.labels.copy_(batch.labels);
  scale_.fill_(scale);
  work_.replay();
  return sums_;
}

void RecordedPass::record(const models::Minibatch& batch, const Pass& pass) {
  if (!work_.failure().empty()) return;  // without copies of the batch
  batch_ = {batch.images.clone(), batch.labels.clone()};
  scale_ = scale_on(batch.labels.device(), 1);
  if (work_.record([this, pass] { sums_ = pass(batch_, scale_); })) return;
  batch_ = {};
  sums_.reset();
}

}  // namespace dimred::engine
