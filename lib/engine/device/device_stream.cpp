#include "engine/device/device_stream.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>
#include <utility>

namespace dimred::engine {
namespace {

torch::Tensor begin_copy(const torch::Tensor& values) {
  auto host =
      torch::empty(values.sizes(), values.options().device(torch::kCPU).pinned_memory(true));
  host.copy_(values, /*non_blocking=*/true);
  return host;
}

c10::Stream current_stream(const torch::Tensor& values) {
  return at::accelerator::getCurrentStream(values.device().index());
}

}  // namespace

// c10::Event goes back to the thread's device by a call that makes a context there, of half a
// gigabyte, on any device; not so where a guard has made the event's own the thread's.

StreamEvent::StreamEvent(const c10::Stream& stream)
    : event_(new c10::Event(stream.device_type()), [device = stream.device()](c10::Event* event) {
        const c10::DeviceGuard guard(device);
        delete event;
      }) {
  const c10::DeviceGuard guard(stream.device());
  event_->record(stream);
}

void StreamEvent::wait() const {
  if (!event_) return;
  const c10::DeviceGuard guard(event_->device());
  event_->synchronize();
}

void StreamEvent::block(const c10::Stream& other) const {
  if (!event_) return;
  const c10::DeviceGuard guard(other.device());
  event_->block(other);
}

const torch::Tensor& HostCopy::get() const {
  arrived_.wait();
  return values_;
}

HostCopy read_back(const torch::Tensor& values) {
  const torch::NoGradGuard no_grad;
  if (values.is_cpu()) return {values.clone(), {}};
  return {begin_copy(values), StreamEvent(current_stream(values))};
}

HostCopy copy_on_side_stream(const torch::Tensor& values) {
  const torch::NoGradGuard no_grad;
  const auto own = values.clone();
  if (values.is_cpu()) return {own, {}};
  const StreamEvent cloned(current_stream(values));
  const auto aside = copy_stream(values.device(), CopyDirection::to_host);
  cloned.block(aside);
  const c10::StreamGuard guard(aside);
  own.record_stream(aside);  // its memory is not given away before the copy is done
  return {begin_copy(own), StreamEvent(aside)};
}

c10::Stream copy_stream(torch::Device device, CopyDirection direction) {
  static std::mutex mutex;
  static std::map<std::pair<c10::DeviceIndex, CopyDirection>, c10::Stream> streams;
  const std::lock_guard lock(mutex);
  const std::pair key{device.index(), direction};
  const auto found = streams.find(key);
  if (found != streams.end()) return found->second;
  const c10::impl::VirtualGuardImpl devices(device.type());
  return streams.emplace(key, devices.getStreamFromGlobalPool(device)).first->second;
}

}  // namespace dimred::engine
