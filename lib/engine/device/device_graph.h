#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>

namespace dimred::engine {

/// Work on a device, recorded once and done again by one launch.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Records what `work` does on the device, without doing it; what it does on the host, it does.
  /// Throws std::runtime_error with the reason when something in it cannot be recorded; nothing has
  /// been done on the device then, and work goes on without graphs as before.
  virtual void record(const std::function<void()>& work) = 0;
  /// Does it, on the tensors that were recorded. Random draws are the ones `work` would make now.
  virtual void replay() = 0;
};

using MakeGraph = std::function<std::unique_ptr<DeviceGraph>()>;

/// Makes CUDA graphs that share one pool of memory: what one's replay leaves there has to be read
/// before another's. From the first one on this thread works on a stream of its own, as recording
/// needs it. Null on the CPU.
MakeGraph device_graphs(torch::Device device);

}  // namespace dimred::engine
