#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <memory>
#include <mutex>

#include "engine/heads/margin_head.h"
#include "models/network.h"
#include "tests/tools/gloo_ranks.h"
#include "tests/tools/toy_setup.h"

namespace dimred::engine {

inline constexpr std::int64_t margin_classes = 11;  // divisible by no number of ranks but one
inline constexpr std::int64_t embedding_width = 6;

struct Embedder final : models::Network {
  Embedder() {
    conv = register_module("conv", torch::nn::Conv2d(1, 4, 5));
    fc = register_module("fc", torch::nn::Linear(4 * 24 * 24, embedding_width));
  }
  torch::Tensor forward(torch::Tensor x) override { return fc(torch::relu(conv(x)).flatten(1)); }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear fc{nullptr};
};

inline models::HeadOptions arcface(double sampling_ratio = 1) {
  return {.margin = {.kind = models::MarginKind::arcface, .scale = 16},
          .embedding_size = embedding_width,
          .sampling_ratio = sampling_ratio};
}

inline std::mutex generator;  // torch's own is one for all threads

/// A toy setup of an embedding with a margin head over the ranks.
inline Setup setup_on(const std::shared_ptr<distributed::TensorCommunicator>& communicator,
                      const models::HeadOptions& head) {
  const std::lock_guard lock(generator);
  auto setup = toy_setup(models::Precision::float32);
  torch::manual_seed(5);
  setup.communicator = communicator;
  setup.model.objective =
      models::classifier(std::make_shared<Embedder>(),
                         {.head = margin_head(head, margin_classes, 1, communicator, torch::kCPU)});
  setup.model.flat =
      models::flatten(*setup.model.objective, layout::MemoryFormat::contiguous, torch::kCPU);
  setup.model.batchnorm_layers = 0;
  setup.model.columns = distributed::columns_of(setup.model.flat.layout, *communicator);
  return setup;
}

inline void on_ranks(
    int ranks,
    const std::function<void(const std::shared_ptr<distributed::TensorCommunicator>&)>& work) {
  if (ranks == 1) return work(distributed::single_rank());
  on_gloo_ranks(ranks, [&](distributed::TensorCommunicator& communicator) {
    work({&communicator, [](auto*) {}});
  });
}

}  // namespace dimred::engine
