#pragma once

#include "training/device/device_graph.h"

namespace dimred::cuda {

/// CUDA graphs on that device; training::device_graphs says what they do.
training::MakeGraph device_graphs(torch::Device device);

}  // namespace dimred::cuda
