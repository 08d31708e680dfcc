#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "models/network.h"
#include "support/random.h"
#include "tests/tools/planes_dataset.h"
#include "training/gradient.h"

namespace dimred::training {

/// Random images in two classes that differ in brightness; no files.
class ToyData final : public data::PlanesDataset {
 public:
  explicit ToyData(std::int64_t size) : PlanesDataset({1, 28, 28}, 10), size_(size) {
    for (std::int64_t i = 0; i < size * 784; ++i) {
      RandomStream stream(9, RandomPurpose::initialization, 0, static_cast<std::uint64_t>(i));
      pixels_.push_back(static_cast<std::uint8_t>(stream.below(128) + 100 * (i / 784 % 2)));
    }
  }
  std::int64_t size() const override { return size_; }
  data::Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    return sample(std::span(pixels_).subspan(static_cast<std::size_t>(index * 784), 784),
                  index % 2);
  }
  std::string description() const override { return "toy"; }

 private:
  std::int64_t size_;
  std::vector<std::uint8_t> pixels_;
};

/// A network with dropout and BatchNorm, to see that a trial is the gradient's own function.
struct DropoutNet final : models::Network {
  DropoutNet() {
    conv = register_module("conv", torch::nn::Conv2d(1, 8, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
    fc = register_module("fc", torch::nn::Linear(8 * 26 * 26, 10));
  }
  torch::Tensor forward(torch::Tensor x) override {
    return fc(dropout(torch::relu(norm(conv(x)))).flatten(1));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear fc{nullptr};
};

inline Setup toy_setup(models::Precision precision,
                       const std::shared_ptr<models::Network>& network = nullptr) {
  torch::manual_seed(3);
  Setup setup;
  setup.communicator = distributed::single_rank();
  setup.train = std::make_shared<ToyData>(96);
  setup.test = setup.train;
  setup.image_shape = {1, 28, 28};
  setup.preprocessing = {.mean = {0.4}, .deviation = {0.3}};
  setup.precision = precision;
  setup.objective = models::classifier(network ? network : std::make_shared<DropoutNet>(),
                                       {.precision = precision});
  setup.flat = models::flatten(*setup.objective, layout::MemoryFormat::contiguous, torch::kCPU);
  setup.batchnorm_layers = setup.objective->batchnorm_layers();
  setup.columns = distributed::columns_of(setup.flat.layout, *setup.communicator);
  setup.global_batch_size = 32;
  setup.seed = 1;
  return setup;
}

inline data::Batch first_batch(const Setup& setup) {
  data::Loader loader(
      *setup.train, {.seed = 1, .size = 96}, setup.preprocessing, loader_options(setup), 0);
  return *loader.next();
}

}  // namespace dimred::training
