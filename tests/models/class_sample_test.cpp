#include "models/class_sample.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dimred::models {
namespace {

TEST(ClassSample, IsExactAndTheSameForAnyBlocks) {
  const auto labels = torch::tensor({std::int64_t{3}, std::int64_t{3}, std::int64_t{96}});
  const ClassSampling sampling{.ratio = 0.1, .seed = 5, .step = 7};
  const auto whole = sampled_classes(sampling, 97, 0, 97, labels);
  EXPECT_GE(whole.numel(), 10);
  EXPECT_LE(whole.numel(), 12);
  for (const std::int64_t class_ : {3, 96}) EXPECT_TRUE((whole == class_).any().item<bool>());
  std::vector<torch::Tensor> parts;
  for (const std::int64_t begin : {0, 40, 80}) {
    const auto count = std::min<std::int64_t>(40, 97 - begin);
    parts.push_back(sampled_classes(sampling, 97, begin, count, labels - begin) + begin);
  }
  EXPECT_TRUE(torch::equal(torch::cat(parts), whole));
  const auto next = sampled_classes({.ratio = 0.1, .seed = 5, .step = 8}, 97, 0, 97, labels);
  EXPECT_FALSE(torch::equal(next, whole));
  EXPECT_TRUE(torch::equal(positions_in(whole, whole), torch::arange(whole.numel())));
  const auto absent = torch::tensor({std::int64_t{-4}, std::int64_t{97}, std::int64_t{200}});
  EXPECT_TRUE(torch::equal(positions_in(whole, absent), torch::full({3}, -1, torch::kInt64)));
}

TEST(ClassSample, DrawsNoClassMoreForARatioThatBinaryRoundsUp) {
  const auto none = torch::empty({0}, torch::kInt64);
  EXPECT_EQ(sampled_classes({.ratio = 0.07, .seed = 1}, 100, 0, 100, none).numel(), 7);
}

/// Each class is drawn in ratio of the steps: 2000 steps, 5 sigma.
TEST(ClassSample, DrawsEveryClassAsOften) {
  auto counts = torch::zeros({20}, torch::kInt64);
  const auto none = torch::empty({0}, torch::kInt64);
  for (std::uint64_t step = 0; step < 2000; ++step) {
    const auto sample = sampled_classes({.ratio = 0.25, .seed = 1, .step = step}, 20, 0, 20, none);
    ASSERT_EQ(sample.numel(), 5);
    counts.index_add_(0, sample, torch::ones_like(sample));
  }
  EXPECT_LT((counts - 500).abs().max().item<std::int64_t>(), 5 * std::sqrt(2000 * 0.25 * 0.75));
}

}  // namespace
}  // namespace dimred::models
