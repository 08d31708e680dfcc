#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/operator_norms.h"

namespace dimred::models {

/// Images [batch, channels, height, width] in, logits [batch, classes] out.
struct Network : torch::nn::Module {
  virtual torch::Tensor forward(torch::Tensor images) = 0;
  /// A second classifier's logits of the last forward pass in train mode; undefined where the
  /// network has none. Their loss counts auxiliary_weight in training.
  torch::Tensor auxiliary_logits;
  /// BatchNorm layers that are operators of a graph, not modules (TorchScript's); else null.
  std::shared_ptr<OperatorNorms> operator_norms;
};
inline constexpr double auxiliary_weight = 0.4;

struct InputShape {
  std::int64_t channels = 1, height = 28, width = 28;
  bool operator==(const InputShape&) const = default;
};

/// Facts about a network.
struct NetworkInfo {
  std::string name;
  std::int64_t image_size = 0;  // height and width of the images that it was made for
  std::string logits;  // the last layer's name: what a transfer to other classes leaves out
};                     // of a TorchScript module: its file, 0 and no name

/// The facts about the network of that name. Throws as make_network does.
NetworkInfo network_info(const std::string& name);

/// Names that make_network knows.
std::vector<std::string> network_names();

/// A network with freshly initialised weights (torch's default initialisation from the current
/// generator), or the TorchScript module of a file with the weights that it holds (models/script.h
/// says which names are files, and what is refused). Throws std::invalid_argument for an unknown
/// name (with the nearest), an input too small for the network, or classes < 2.
std::shared_ptr<Network> make_network(const std::string& name,
                                      const InputShape& input,
                                      std::int64_t classes);

// One family a file; each names its members and builds them.
std::shared_ptr<Network> make_alexnet(const InputShape& input, std::int64_t classes);
std::shared_ptr<Network> make_convnet(const InputShape& input, std::int64_t classes);
std::shared_ptr<Network> make_inception_resnet_v2(const InputShape& input, std::int64_t classes);
std::shared_ptr<Network> make_inception_v3(const InputShape& input, std::int64_t classes);
std::shared_ptr<Network> make_lenet(const InputShape& input, std::int64_t classes);
std::shared_ptr<Network> make_mobilenet_v2(const InputShape& input, std::int64_t classes);
std::shared_ptr<Network> make_preresnet(std::int64_t n,
                                        const InputShape& input,
                                        std::int64_t classes);
std::shared_ptr<Network> make_resnet(const std::vector<std::int64_t>& blocks,
                                     bool bottleneck,
                                     const InputShape& input,
                                     std::int64_t classes);
std::shared_ptr<Network> make_resnet_cifar(std::int64_t n,
                                           const InputShape& input,
                                           std::int64_t classes);
std::shared_ptr<Network> make_resnet_v2_50(const InputShape& input, std::int64_t classes);
std::shared_ptr<Network> make_vgg(const std::vector<std::int64_t>& convolutions,
                                  bool batch_norm,
                                  const InputShape& input,
                                  std::int64_t classes);
std::shared_ptr<Network> make_vgg16_flatten(const InputShape& input, std::int64_t classes);
std::shared_ptr<Network> make_wide_resnet(std::int64_t n,
                                          std::int64_t widen,
                                          const InputShape& input,
                                          std::int64_t classes);

}  // namespace dimred::models
