#pragma once

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <vector>

#include "models/batch_norm_layer.h"

namespace dimred::models {

/// A filter's size, stride and zero padding, by height and width.
struct ConvWindow {
  std::int64_t height = 1, width = 1, stride = 1, vertical_padding = 0, horizontal_padding = 0;
};
inline constexpr ConvWindow one_by_one{};
/// size x size, as large an output as input.
constexpr ConvWindow same(std::int64_t height, std::int64_t width) {
  return {height, width, 1, height / 2, width / 2};
}
constexpr ConvWindow same(std::int64_t size) { return same(size, size); }
/// size x size without padding.
constexpr ConvWindow valid(std::int64_t size, std::int64_t stride = 1) {
  return {size, size, stride};
}

/// Convolution without bias (`conv`), BatchNorm with epsilon 0.001 (`bn`), ReLU.
class ConvBlockImpl : public torch::nn::Module {
 public:
  ConvBlockImpl(std::int64_t in, std::int64_t out, const ConvWindow& window);
  torch::Tensor forward(const torch::Tensor& x) { return torch::relu(bn_(conv_(x))); }

 private:
  torch::nn::Conv2d conv_;
  BatchNorm2d bn_;
};
TORCH_MODULE(ConvBlock);

/// Convolutions one behind the other.
using Chain = std::vector<ConvBlock>;
torch::Tensor run(const Chain& chain, torch::Tensor x);

/// The second classifier on the 17 x 17 maps, of the training loss alone.
class AuxiliaryClassifier final : public torch::nn::Module {
 public:
  AuxiliaryClassifier(std::int64_t in, std::int64_t classes);
  torch::Tensor forward(const torch::Tensor& x);

  Chain convolutions;
  torch::nn::Linear fc;
};

/// 3x3 maxima with stride 2, without padding.
torch::Tensor max_3x3(const torch::Tensor& x);

}  // namespace dimred::models
