#include "training/device_stream.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>

namespace dimred::training {
namespace {

torch::Tensor begin_copy(const torch::Tensor& values) {
  auto host =
      torch::empty(values.sizes(), values.options().device(torch::kCPU).pinned_memory(true));
  host.copy_(values, /*non_blocking=*/true);
  return host;
}

c10::Stream present_stream(const torch::Tensor& values) {
  return at::accelerator::getCurrentStream(values.device().index());
}

}  // namespace

StreamPoint::StreamPoint(const c10::Stream& stream)
    : event_(std::make_shared<c10::Event>(stream.device_type())) {
  event_->record(stream);
}

void StreamPoint::wait() const {
  if (event_) event_->synchronize();
}

void StreamPoint::hold_back(const c10::Stream& other) const {
  if (event_) event_->block(other);
}

const torch::Tensor& HostCopy::get() const {
  arrived_.wait();
  return values_;
}

HostCopy read_back(const torch::Tensor& values) {
  const torch::NoGradGuard no_grad;
  if (values.is_cpu()) return {values.clone(), {}};
  return {begin_copy(values), StreamPoint(present_stream(values))};
}

HostCopy copy_aside(const torch::Tensor& values) {
  const torch::NoGradGuard no_grad;
  const auto own = values.clone();
  if (values.is_cpu()) return {own, {}};
  const StreamPoint cloned(present_stream(values));
  const auto aside = copy_stream(values.device());
  cloned.hold_back(aside);
  const c10::StreamGuard guard(aside);
  own.record_stream(aside);  // its memory is not given away before the copy is done
  return {begin_copy(own), StreamPoint(aside)};
}

c10::Stream copy_stream(torch::Device device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, c10::Stream> streams;
  const std::lock_guard lock(mutex);
  const auto found = streams.find(device.index());
  if (found != streams.end()) return found->second;
  const c10::impl::VirtualGuardImpl devices(device.type());
  return streams.emplace(device.index(), devices.getStreamFromGlobalPool(device)).first->second;
}

}  // namespace dimred::training
