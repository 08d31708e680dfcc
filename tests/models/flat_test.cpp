#include "models/flat.h"

#include <gtest/gtest.h>

#include "models/network.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::models {
namespace {

struct Flattened {
  std::unique_ptr<Objective> objective;
  FlatVectors flat;
};

Flattened flattened(const std::string& name, layout::MemoryFormat format) {
  torch::manual_seed(5);
  auto objective = classifier(make_network(name, {1, 28, 28}, 10), {});
  auto flat = flatten(*objective, format, torch::kCPU);
  return {std::move(objective), std::move(flat)};
}

Minibatch some_batch() {
  torch::manual_seed(6);
  return {torch::randn({4, 1, 28, 28}), torch::randint(0, 10, {4})};
}

class Formats : public testing::TestWithParam<layout::MemoryFormat> {};
INSTANTIATE_TEST_SUITE_P(Both,
                         Formats,
                         testing::Values(layout::MemoryFormat::contiguous,
                                         layout::MemoryFormat::channels_last));

TEST_P(Formats, FlatParametersAreViews) {
  auto [objective, flat] = flattened("resnet20", GetParam());
  const auto before = objective->evaluate(some_batch(), Mode::evaluate).loss_sum.item<double>();
  {
    const torch::NoGradGuard no_grad;
    flat.weights.mul_(1.1);  // a step changes the module
  }
  EXPECT_NE(objective->evaluate(some_batch(), Mode::evaluate).loss_sum.item<double>(), before);
  for (const auto& [name, parameter, global_rows, first_row] : objective->parameters()) {
    EXPECT_EQ(parameter.storage().data(), flat.weights.storage().data()) << name;
  }
}

TEST_P(Formats, BackwardAccumulatesIntoTheGradientVector) {
  auto [objective, flat] = flattened("convnet", GetParam());
  objective->evaluate(some_batch(), Mode::train).loss_sum.backward();
  const auto parameters = objective->parameters();
  double expected = 0;
  for (const auto& [name, parameter, global_rows, first_row] : parameters) {
    EXPECT_EQ(parameter.grad().storage().data(), flat.gradient.storage().data()) << name;
    expected += parameter.grad().square().sum().item<double>();
  }
  EXPECT_GT(expected, 0);
  EXPECT_NEAR(flat.gradient.square().sum().item<double>(), expected, 1e-4 * expected);
}

/// File order is parameters_to_vector of the plain module, whatever the memory format.
TEST_P(Formats, FileOrderIsTheConcatenationOfContiguousParameters) {
  torch::manual_seed(5);
  auto plain = classifier(make_network("convnet", {1, 28, 28}, 10), {});
  std::vector<torch::Tensor> parts;
  for (const auto& [name, parameter, global_rows, first_row] : plain->parameters())
    parts.push_back(parameter.detach().flatten());
  const auto expected = torch::cat(parts);

  auto [objective, flat] = flattened("convnet", GetParam());
  auto file = to_file(flat.layout, flat.weights);
  ASSERT_EQ(static_cast<std::int64_t>(file.size()), expected.numel());
  EXPECT_TRUE(torch::equal(torch::tensor(file), expected));

  const auto memory = flat.weights.clone();
  flat.weights.detach().zero_();
  from_file(flat.layout, file, flat.weights);
  EXPECT_TRUE(torch::equal(flat.weights, memory));
}

TEST(Flat, BuffersAreViewsToo) {
  auto [objective, flat] = flattened("resnet20", layout::MemoryFormat::contiguous);
  EXPECT_EQ(flat.counters.numel(), 19);  // one num_batches_tracked a BatchNorm
  const auto before = flat.buffers.clone();
  objective->evaluate(some_batch(), Mode::train);
  EXPECT_FALSE(torch::equal(flat.buffers, before));
  EXPECT_EQ(flat.counters.sum().item<std::int64_t>(), 19);
}

TEST(Flat, WeightDecayIsOffForBiasesAndBatchNorm) {
  const auto [objective, flat] = flattened("resnet20", layout::MemoryFormat::contiguous);
  for (const auto& entry : flat.layout.entries) {
    const bool matrix = entry.name.find("conv") != std::string::npos || entry.name == "fc.weight";
    EXPECT_EQ(entry.decay, matrix) << entry.name;
  }
}

TEST(Registry, NamesTheNearestNetwork) {
  const auto text = thrown<std::invalid_argument>([] {
    make_network("resnet21", {1, 28, 28}, 10);
  });
  EXPECT_NE(text.find("did you mean resnet20?"), std::string::npos) << text;
  EXPECT_THROW(make_network("convnet", {1, 12, 12}, 10), std::invalid_argument);
  EXPECT_THROW(make_network("convnet", {1, 28, 28}, 1), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::models
