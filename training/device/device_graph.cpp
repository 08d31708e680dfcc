#include "training/device/device_graph.h"

#include "cuda/cuda.h"

namespace dimred::training {

MakeGraph device_graphs(torch::Device device) {
  if (!device.is_cuda()) return {};
  return cuda::library().functions->device_graphs(device);
}

}  // namespace dimred::training
