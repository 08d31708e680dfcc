#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>

#include <mutex>

#include "engine/passes/buckets.h"
#include "models/batch_norm_layer.h"
#include "models/network.h"
#include "support/agreement.h"
#include "support/errors.h"
#include "tests/tools/gloo_ranks.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::engine {
namespace {

/// Output and gradients of a BatchNorm layer for a batch and an upstream gradient.
struct NormResult {
  torch::Tensor output, input_gradient, weight_gradient, bias_gradient, mean, variance;
};

NormResult normalise(const torch::Tensor& batch,
                     const torch::Tensor& upstream,
                     const models::SumOverRanks& sum) {
  models::BatchNorm2d norm(batch.size(1));
  norm->weight.detach().copy_(torch::linspace(0.5, 2, batch.size(1)));
  norm->sum_over_ranks = sum;
  auto input = batch.clone().requires_grad_();
  const auto output = norm->forward(input);
  output.backward(upstream);
  return {output.detach(),
          input.grad(),
          norm->weight.grad(),
          norm->bias.grad(),
          norm->running_mean,
          norm->running_var};
}

/// Sizes of each rank's part, an empty one among them.
class Parts : public testing::TestWithParam<std::vector<std::int64_t>> {};
INSTANTIATE_TEST_SUITE_P(Sizes,
                         Parts,
                         testing::Values(std::vector<std::int64_t>{4, 4},
                                         std::vector<std::int64_t>{1, 0, 6},
                                         std::vector<std::int64_t>{2, 3, 1, 2}));

TEST_P(Parts, SynchronizedBatchNormIsThatOfTheWholeBatch) {
  const auto& sizes = GetParam();
  std::int64_t total = 0;
  for (const auto size : sizes) total += size;
  torch::manual_seed(1);
  const auto batch = torch::randn({total, 5, 3, 3}) * 3 + 100;  // a mean that cancels badly
  const auto upstream = torch::randn_like(batch);
  const auto whole = normalise(batch, upstream, {});
  std::mutex mutex;
  auto weight_gradient = torch::zeros({5}), bias_gradient = torch::zeros({5});
  on_gloo_ranks(static_cast<int>(sizes.size()), [&](distributed::TensorCommunicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    std::int64_t begin = 0;
    for (std::size_t r = 0; r < rank; ++r) begin += sizes[r];
    const auto part = [&](const torch::Tensor& t) { return t.narrow(0, begin, sizes[rank]); };
    const auto result = normalise(
        part(batch), part(upstream), [&](torch::Tensor& sums) { communicator.all_reduce(sums); });
    // float32 inputs of about 100 hold 1e-5 of their deviation of 3.
    EXPECT_TRUE(torch::allclose(result.output, part(whole.output), 1e-4, 2e-5));
    EXPECT_TRUE(torch::allclose(result.input_gradient, part(whole.input_gradient), 1e-4, 2e-5));
    EXPECT_TRUE(torch::allclose(result.mean, whole.mean));
    EXPECT_TRUE(torch::allclose(result.variance, whole.variance, 1e-4));
    const std::lock_guard lock(mutex);
    weight_gradient += result.weight_gradient;
    bias_gradient += result.bias_gradient;
  });
  EXPECT_TRUE(torch::allclose(weight_gradient, whole.weight_gradient, 1e-4, 1e-4));
  EXPECT_TRUE(torch::allclose(bias_gradient, whole.bias_gradient, 1e-4, 1e-4));
}

TEST(SynchronizedBatchNorm, APassWithoutAnySampleChangesNothing) {
  models::BatchNorm2d norm(5);
  norm->sum_over_ranks = [](torch::Tensor&) {};
  auto nothing = torch::empty({0, 5, 3, 3}).requires_grad_();
  norm->forward(nothing).sum().backward();
  EXPECT_TRUE(torch::equal(norm->running_mean, torch::zeros({5})));
  EXPECT_TRUE(torch::equal(norm->running_var, torch::ones({5})));
}

layout::Layout layout_of(const std::vector<std::int64_t>& sizes) {
  std::vector<layout::Parameter> table;
  for (const auto size : sizes) {
    layout::Parameter row;
    row.name = formatted("p{}", table.size());
    row.shape = {size};
    table.push_back(row);
  }
  return layout::make_layout(table);
}

constexpr double mb = 1024.0 * 1024.0 / 4;  // columns

TEST(BucketColumns, CoverTheVectorFromItsEndWithASmallFirstOne) {
  const auto layout = layout_of(std::vector<std::int64_t>(40, static_cast<std::int64_t>(mb / 2)));
  const auto buckets = bucket_columns(layout, {.bucket_mb = 5, .first_bucket_mb = 1});
  ASSERT_EQ(buckets.size(), 5U);  // 1, 5, 5, 5 and the rest of 20 MiB
  EXPECT_EQ(buckets.front().end, layout.memory_size);
  EXPECT_EQ(buckets.front().size(), mb);
  EXPECT_EQ(buckets[1].size(), 5 * mb);
  EXPECT_EQ(buckets.back().begin, 0);
  for (std::size_t i = 1; i < buckets.size(); ++i) EXPECT_EQ(buckets[i].end, buckets[i - 1].begin);
}

TEST(BucketColumns, NeverCutAParameter) {
  const auto layout = layout_of({10, static_cast<std::int64_t>(9 * mb), 10});
  const auto buckets = bucket_columns(layout, {.bucket_mb = 2, .first_bucket_mb = 1});
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[1].begin, layout.entries[1].memory_offset);
}

TEST(BucketColumns, ExplicitCutsCountParameters) {
  const auto layout = layout_of({10, 20, 30, 40});
  const auto buckets = bucket_columns(layout, {.split = {1, 3}});
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[0].begin, layout.entries[3].memory_offset);
  EXPECT_EQ(buckets[1].begin, layout.entries[1].memory_offset);
  for (const auto& bad : {std::vector<double>{4}, {2, 2}, {3, 1}, {0}, {1.5}})
    EXPECT_THROW(bucket_columns(layout, {.split = bad}), std::invalid_argument);
}

struct TwoLayers final : models::Network {
  TwoLayers() {
    one = register_module("one", torch::nn::Conv2d(1, 4, 3));
    unused = register_module("unused", torch::nn::Conv2d(1, 4, 3));
    two = register_module("two", torch::nn::Conv2d(4, 10, 26));
  }
  torch::Tensor forward(torch::Tensor x) override { return two(torch::relu(one(x))).flatten(1); }
  torch::nn::Conv2d one{nullptr}, unused{nullptr}, two{nullptr};
};

TEST(GradientBuckets, EqualOneAllReduceAfterTheBackwardPass) {
  std::mutex building;  // torch's generator belongs to all threads
  for (const bool some_rank_idle : {false, true}) {
    on_gloo_ranks(3, [&](distributed::TensorCommunicator& communicator) {
      std::unique_ptr<models::Objective> objective;
      models::FlatVectors flat;
      torch::Tensor images;
      {
        const std::lock_guard lock(building);
        torch::manual_seed(1);
        objective = models::classifier(std::make_shared<TwoLayers>(), {});
        flat = models::flatten(*objective, layout::MemoryFormat::channels_last, torch::kCPU);
        torch::manual_seed(communicator.rank());
        images = torch::randn({2, 1, 28, 28});
      }
      const models::Minibatch batch{images, torch::tensor({1, 2})};
      const bool idle = some_rank_idle && communicator.rank() == 1;
      const auto backward = [&] {
        flat.gradient.zero_();
        if (!idle) objective->evaluate(batch, models::Mode::train).loss_sum.backward();
      };
      backward();
      auto expected = flat.gradient.clone();
      communicator.all_reduce(expected);
      GradientBuckets buckets(
          *objective, flat, communicator, {.bucket_mb = 1e-3, .first_bucket_mb = 1e-4});
      ASSERT_GT(buckets.count(), 2U);
      for (int step = 0; step < 2; ++step) {
        if (!idle) buckets.begin();
        backward();
        buckets.start_rest();
        buckets.finish();
        EXPECT_TRUE(torch::allclose(flat.gradient, expected, 1e-6, 1e-7));
      }
      EXPECT_GT(buckets.overlap().seconds, 0);
    });
  }
}

TEST(Agreement, NamesTheFactAndTheRank) {
  on_gloo_ranks(3, [](distributed::TensorCommunicator& communicator) {
    const auto seed = communicator.rank() == 2 ? "7" : "1";
    require_agreement(communicator, {{"model", "convnet"}, {"epochs", "2"}});
    EXPECT_EQ(thrown<std::invalid_argument>([&] {
                require_agreement(communicator, {{"model", "convnet"}, {"seed", seed}});
              }),
              "[distributed] ranks disagree in seed: rank 0 has 1, rank 2 has 7");
  });
}

TEST(OnRank0, GivesTheResultOrTheErrorToAll) {
  on_gloo_ranks(3, [](distributed::TensorCommunicator& communicator) {
    const auto rank = communicator.rank();
    EXPECT_EQ(on_rank_0(communicator, [&] { return formatted("of {}", rank); }), "of 0");
    EXPECT_EQ(on_rank_0(communicator, [&] { return rank == 0; }), true);
    const auto numbers = [&] { return std::pair{std::vector{0.1 + rank, 1e-300}, rank}; };
    EXPECT_EQ(on_rank_0(communicator, numbers), (std::pair{std::vector{0.1, 1e-300}, 0}));
    bool called = false;
    on_rank_0(communicator, [&] { called = true; });
    EXPECT_EQ(called, rank == 0);
    EXPECT_THROW(
        on_rank_0(communicator,
                  [&]() -> std::string { throw std::runtime_error(formatted("{}", rank)); }),
        std::runtime_error);
    const auto rule = []() -> std::string { throw std::invalid_argument("[x] rule"); };
    EXPECT_EQ(thrown<std::invalid_argument>([&] { on_rank_0(communicator, rule); }), "[x] rule");
  });
}

}  // namespace
}  // namespace dimred::engine
