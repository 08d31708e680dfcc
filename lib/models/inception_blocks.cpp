#include "models/inception_blocks.h"

namespace dimred::models {

namespace nn = torch::nn;

ConvBlockImpl::ConvBlockImpl(std::int64_t in, std::int64_t out, const ConvWindow& window)
    : conv_(register_module(
          "conv",
          nn::Conv2d(nn::Conv2dOptions(in, out, {window.height, window.width})
                         .stride(window.stride)
                         .padding({window.vertical_padding, window.horizontal_padding})
                         .bias(false)))),
      bn_(register_module("bn", BatchNorm2d(nn::BatchNorm2dOptions(out).eps(1e-3)))) {}

torch::Tensor run(const Chain& chain, torch::Tensor x) {
  for (auto block : chain) x = block(x);
  return x;
}

AuxiliaryClassifier::AuxiliaryClassifier(std::int64_t in, std::int64_t classes)
    : convolutions{register_module("conv0", ConvBlock(in, 128, one_by_one)),
                   register_module("conv1", ConvBlock(128, 768, valid(5)))},
      fc(register_module("fc", nn::Linear(768, classes))) {}

torch::Tensor AuxiliaryClassifier::forward(const torch::Tensor& x) {
  return fc(run(convolutions, torch::avg_pool2d(x, 5, /*stride=*/3)).mean({2, 3}));
}

torch::Tensor max_3x3(const torch::Tensor& x) { return torch::max_pool2d(x, 3, /*stride=*/2); }

}  // namespace dimred::models
