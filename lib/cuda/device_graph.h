#pragma once

#include "engine/device/device_graph.h"

namespace dimred::cuda {

/// CUDA graphs on that device; engine::device_graphs says what they do.
engine::MakeGraph device_graphs(torch::Device device);

}  // namespace dimred::cuda
