#include "tests/tools/steep_network.h"

#include <torch/nn/modules/linear.h>

#include "models/network.h"

namespace dimred::engine {
namespace {

struct SteepNetwork final : models::Network {
  explicit SteepNetwork(double by) : factor(by) {
    torch::manual_seed(5);
    fc = register_module("fc", torch::nn::Linear(784, 10));
  }
  torch::Tensor forward(torch::Tensor x) override {
    auto logits = fc(x.flatten(1));
    if (logits.requires_grad())
      logits.register_hook([by = factor](const torch::Tensor& g) { return g * by; });
    return logits;
  }
  torch::nn::Linear fc{nullptr};
  double factor;
};

}  // namespace

std::shared_ptr<models::Network> steep_network(double factor) {
  return std::make_shared<SteepNetwork>(factor);
}

}  // namespace dimred::engine
