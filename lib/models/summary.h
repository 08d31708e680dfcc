#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/network.h"

namespace dimred::models {

/// A module with weights of its own, at one image.
struct LayerSummary {
  std::string name, kind;
  std::vector<std::int64_t> weight;  // shape
  std::vector<std::int64_t> output;  // shape, [batch = 1, ...]; empty: it took no part
  std::int64_t parameters = 0;
  std::int64_t multiply_adds = 0;  // of convolutions and linear layers
};

struct NetworkSummary {
  std::vector<LayerSummary> layers;  // in registration order
  std::int64_t parameters = 0;
  std::int64_t buffers = 0;  // floating values: running statistics
  std::int64_t multiply_adds = 0;
};

/// The summary of one forward pass of one image in evaluation mode, counted from the operators that
/// it runs.
NetworkSummary summarise(Network& network, const InputShape& input);

}  // namespace dimred::models
