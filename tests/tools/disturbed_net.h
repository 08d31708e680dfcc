#pragma once

#include <limits>
#include <set>
#include <stdexcept>

#include "tests/tools/dropout_net.h"

namespace dimred::engine {

/// Dropout before and behind BatchNorm; its passes in train mode are counted from 0, and the named
/// ones see images that are not finite, or throw. With no_score, a loss in eval mode is NaN.
struct DisturbedNet final : models::Network {
  DisturbedNet() {
    torch::manual_seed(4);
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
    inner = register_module("inner", std::make_shared<DropoutNet>());
  }
  torch::Tensor forward(torch::Tensor x) override {
    if (no_score && !is_training()) x = x * std::numeric_limits<float>::quiet_NaN();
    const auto pass = is_training() ? passes++ : -1;
    if (throws.contains(pass)) throw std::runtime_error("disturbed");
    if (not_finite.contains(pass)) x = x * std::numeric_limits<float>::quiet_NaN();
    return inner->forward(dropout(x));
  }
  torch::nn::Dropout dropout{nullptr};
  std::shared_ptr<DropoutNet> inner;
  std::set<int> not_finite, throws;
  int passes = 0;
  bool no_score = false;
};

}  // namespace dimred::engine
