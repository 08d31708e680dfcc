#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dimred::models {

/// Images [batch, channels, height, width] in, logits [batch, classes] out.
struct Network : torch::nn::Module {
  virtual torch::Tensor forward(torch::Tensor images) = 0;
};

struct InputShape {
  std::int64_t channels = 1, height = 28, width = 28;
  bool operator==(const InputShape&) const = default;
};

/// Names that make_network knows.
std::vector<std::string> network_names();

/// A network with freshly initialised weights (torch's default initialisation from the current
/// generator). Throws std::invalid_argument for an unknown name (with the nearest), an input too
/// small for the network, or classes < 2.
std::shared_ptr<Network> make_network(const std::string& name,
                                      const InputShape& input,
                                      std::int64_t classes);

// One family a file; each names its members and builds them.
std::shared_ptr<Network> make_convnet(const InputShape& input, std::int64_t classes);
std::shared_ptr<Network> make_resnet_cifar(std::int64_t depth,
                                           const InputShape& input,
                                           std::int64_t classes);

}  // namespace dimred::models
