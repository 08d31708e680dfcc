#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/types.h>

#include <memory>

// Copies between host and device that nobody waits for until their values are used. On the CPU each
// is done at once.
namespace dimred::engine {

/// A point in a device's stream of work; without one, passed already. May be waited for by any
/// thread.
class StreamEvent {
 public:
  StreamEvent() = default;
  /// Behind all that the stream has been given.
  explicit StreamEvent(const c10::Stream& stream);

  void wait() const;                           // the host; throws what the device met
  void block(const c10::Stream& other) const;  // what the other is given from now on

 private:
  std::shared_ptr<c10::Event> event_;
};

/// Values on their way to the host.
class HostCopy {
 public:
  HostCopy() = default;
  HostCopy(torch::Tensor values, StreamEvent arrived)
      : values_(std::move(values)), arrived_(std::move(arrived)) {}
  bool exists() const { return values_.defined(); }
  /// Once they have arrived.
  const torch::Tensor& get() const;

 private:
  torch::Tensor values_;
  StreamEvent arrived_;
};

/// A few numbers, in their turn on the current stream. `values` may change afterwards.
HostCopy read_back(const torch::Tensor& values);

/// Many, beside the work of the current stream. `values` may change afterwards. Cost: one more copy
/// of them on the device for as long, and page-locked memory, rounded up to a power of two, which
/// torch keeps for the next one.
HostCopy copy_on_side_stream(const torch::Tensor& values);

/// The stream of the device's copies in one direction; the device has an engine for each direction.
/// Throws on the CPU.
enum class CopyDirection { to_device, to_host };
c10::Stream copy_stream(torch::Device device, CopyDirection direction);

}  // namespace dimred::engine
