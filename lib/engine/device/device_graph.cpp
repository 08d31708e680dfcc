#include "engine/device/device_graph.h"

#include "cuda/cuda.h"

namespace dimred::engine {

MakeGraph device_graphs(torch::Device device) {
  const auto* functions = cuda::library().functions;
  if (!device.is_cuda() || functions == nullptr) return {};
  return functions->device_graphs(device);
}

}  // namespace dimred::engine
