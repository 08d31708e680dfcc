#include "engine/heads/class_sharded_softmax.h"

#include <gtest/gtest.h>

#include <functional>
#include <mutex>

#include "tests/tools/gloo_ranks.h"
#include "tests/tools/head_bytes.h"
#include "tests/tools/one_block_softmax.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::engine {
namespace {

using distributed::TensorCommunicator;
using models::BeyondPi;
using models::Margin;

constexpr std::int64_t embedding = 6;
constexpr std::int64_t softmax_classes = 11;  // divisible by no number of ranks but one

struct Problem {
  torch::Tensor features, labels, weights;
};

Problem problem(torch::ScalarType type = torch::kFloat64) {
  torch::manual_seed(4);
  return {torch::randn({13, embedding}, type) * 2,
          torch::randint(0, softmax_classes, {13}),
          torch::randn({softmax_classes, embedding}, type)};
}

void softmax_on_ranks(int ranks, const std::function<void(TensorCommunicator&)>& work) {
  if (ranks > 1) return on_gloo_ranks(ranks, work);
  work(*distributed::single_rank());
}

/// First sample of each rank; of more than one the second rank has none.
std::int64_t first_sample(int rank, int ranks) {
  const std::vector<std::vector<std::int64_t>> begins{
      {0, 13}, {0, 13, 13}, {0, 5, 5, 13}, {0, 4, 4, 9, 13}};
  return begins[static_cast<std::size_t>(ranks - 1)][static_cast<std::size_t>(rank)];
}

struct Gathered {
  std::vector<double> losses;
  std::int64_t correct = 0;
  torch::Tensor feature_gradient, weight_gradient;
};

/// The sharded result of `ranks` put together.
Gathered sharded(const Problem& p,
                 const Margin& margin,
                 int ranks,
                 const models::ClassSampling& sampling = {}) {
  Gathered result{.losses = std::vector<double>(static_cast<std::size_t>(ranks)),
                  .feature_gradient = torch::zeros_like(p.features),
                  .weight_gradient = torch::zeros_like(p.weights)};
  std::mutex mutex;
  softmax_on_ranks(ranks, [&](TensorCommunicator& communicator) {
    const int rank = communicator.rank();
    const auto begin = first_sample(rank, ranks);
    const auto count = first_sample(rank + 1, ranks) - begin;
    const auto range = class_range(softmax_classes, rank, ranks);
    const auto before = communicator.bytes_sent();
    const auto own = class_sharded_softmax(p.features.narrow(0, begin, count),
                                           p.labels.narrow(0, begin, count),
                                           p.weights.narrow(0, range.begin, range.size()),
                                           range,
                                           margin,
                                           sampling,
                                           communicator);
    const bytes_sent::HeadShape head{.ranks = ranks,
                                     .classes = softmax_classes,
                                     .embedding = embedding,
                                     .batch = 13,
                                     .number_bytes = p.features.element_size()};
    EXPECT_EQ(communicator.bytes_sent() - before, bytes_sent::head_bytes(head, count));
    const std::lock_guard lock(mutex);
    result.losses[static_cast<std::size_t>(rank)] = own.loss;
    result.correct = own.correct;
    EXPECT_EQ(own.samples, 13);
    result.feature_gradient.narrow(0, begin, count).copy_(own.feature_gradient);
    auto part = result.weight_gradient.narrow(0, range.begin, range.size());
    if (own.sampled.defined())
      part.index_copy_(0, own.sampled, own.weight_gradient);
    else
      part.copy_(own.weight_gradient);
  });
  return result;
}

class ClassSharded : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ClassSharded, testing::Values(1, 2, 3, 4));

TEST_P(ClassSharded, EqualsTheWholeForEveryMargin) {
  const auto p = problem();
  for (const auto& margin :
       {Margin{},
        Margin{.normalized = false, .scale = 1, .m2 = 0},
        Margin{.scale = 20, .m2 = 0, .m3 = 0.35},
        Margin{.scale = 9, .m1 = 1.3, .m2 = 0.4, .m3 = 0.1, .beyond = BeyondPi::cosine}}) {
    const auto whole = models::margin_softmax(p.features, p.labels, p.weights, margin);
    const auto ours = sharded(p, margin, GetParam());
    for (const double loss : ours.losses) {
      EXPECT_NEAR(loss, whole.loss, 1e-12 * whole.loss);
      EXPECT_EQ(loss, ours.losses[0]);
    }
    EXPECT_EQ(ours.correct, whole.correct);
    EXPECT_TRUE(torch::allclose(ours.feature_gradient, whole.feature_gradient, 1e-11, 1e-13));
    EXPECT_TRUE(torch::allclose(ours.weight_gradient, whole.weight_gradient, 1e-11, 1e-13));
  }
}

TEST_P(ClassSharded, EqualsTheWholeInFloat32) {
  const auto p = problem(torch::kFloat32);
  const auto whole = models::margin_softmax(p.features, p.labels, p.weights, {});
  const auto ours = sharded(p, {}, GetParam());
  EXPECT_NEAR(ours.losses[0], whole.loss, 1e-6 * whole.loss);
  EXPECT_TRUE(torch::allclose(ours.feature_gradient, whole.feature_gradient, 1e-4, 1e-5));
  EXPECT_TRUE(torch::allclose(ours.weight_gradient, whole.weight_gradient, 1e-4, 1e-5));
}

/// A sample of classes is the softmax over those classes alone, whoever holds them.
TEST_P(ClassSharded, ASampleIsTheWholeOfItsClasses) {
  const auto p = problem();
  const models::ClassSampling sampling{.ratio = 0.3, .seed = 2, .step = 5};
  const auto sample =
      models::sampled_classes(sampling, softmax_classes, 0, softmax_classes, p.labels);
  ASSERT_LT(sample.numel(), softmax_classes);
  const auto whole = models::margin_softmax(
      p.features, models::positions_in(sample, p.labels), p.weights.index_select(0, sample), {});
  const auto ours = sharded(p, {}, GetParam(), sampling);
  EXPECT_NEAR(ours.losses[0], whole.loss, 1e-12 * whole.loss);
  EXPECT_TRUE(torch::allclose(ours.feature_gradient, whole.feature_gradient, 1e-11, 1e-13));
  auto gradient = torch::zeros_like(p.weights);
  gradient.index_copy_(0, sample, whole.weight_gradient);
  EXPECT_TRUE(torch::allclose(ours.weight_gradient, gradient, 1e-11, 1e-13));
}

TEST_P(ClassSharded, WithoutGradientsTheLossHasTheSameBits) {
  const auto p = problem(torch::kFloat32);
  const int ranks = GetParam();
  softmax_on_ranks(ranks, [&](TensorCommunicator& communicator) {
    const auto range = class_range(softmax_classes, communicator.rank(), ranks);
    const auto own = p.weights.narrow(0, range.begin, range.size());
    const auto loss = [&](bool with_gradients) {
      return class_sharded_softmax(
          p.features, p.labels, own, range, {}, {}, communicator, with_gradients);
    };
    const auto whole = loss(true);
    const auto before = communicator.bytes_sent();
    const auto alone = loss(false);
    EXPECT_EQ(alone.loss, whole.loss);
    EXPECT_FALSE(alone.feature_gradient.defined() || alone.weight_gradient.defined());
    const bytes_sent::HeadShape head{
        .ranks = ranks, .classes = softmax_classes, .embedding = embedding, .batch = 13 * ranks};
    EXPECT_EQ(communicator.bytes_sent() - before, bytes_sent::head_bytes(head, 13, false));
  });
}

/// 5 classes on 4 ranks: two each, one, none.
TEST(ClassSharded, LastRanksMayHaveNoClasses) {
  EXPECT_EQ(class_range(5, 2, 4).size(), 1);
  EXPECT_EQ(class_range(5, 3, 4).size(), 0);
  torch::manual_seed(1);
  const auto features = torch::randn({4, embedding}, torch::kFloat64);
  const auto weights = torch::randn({5, embedding}, torch::kFloat64);
  const auto labels = torch::tensor({4, 0, 1, 3}, torch::kInt64);
  const auto whole = models::margin_softmax(features, labels, weights, {});
  on_gloo_ranks(4, [&](TensorCommunicator& communicator) {
    const auto rank = communicator.rank();
    const auto range = class_range(5, rank, 4);
    const auto own = class_sharded_softmax(features.narrow(0, rank, 1),
                                           labels.narrow(0, rank, 1),
                                           weights.narrow(0, range.begin, range.size()),
                                           range,
                                           {},
                                           {},
                                           communicator);
    EXPECT_NEAR(own.loss, whole.loss, 1e-12 * whole.loss);
    EXPECT_TRUE(torch::allclose(
        own.feature_gradient, whole.feature_gradient.narrow(0, rank, 1), 1e-11, 1e-13));
  });
}

TEST(ClassSharded, RefusesFewerClassesThanRanks) {
  EXPECT_EQ(thrown<std::invalid_argument>([] { class_range(3, 0, 4); }),
            "[margin_loss] needs at least one class for each rank, received 3 classes and 4 ranks");
}

TEST(ClassSharded, RefusesOnEveryRankWhatDiffersBetweenThem) {
  const auto p = problem();
  on_gloo_ranks(3, [&](TensorCommunicator& communicator) {
    const int rank = communicator.rank();
    const auto call = [&](std::int64_t of_all, const torch::Tensor& features, const auto& weights) {
      const auto range = class_range(of_all, rank, 3);
      const auto own = weights.narrow(0, range.begin, range.size());
      return thrown<std::invalid_argument>(
          [&] { class_sharded_softmax(features, p.labels, own, range, {}, {}, communicator); });
    };
    const std::string scope =
        "[margin_loss] needs the same values on every rank, received D = 6 in Double and 11 "
        "classes (rank 0) and ";
    const auto narrow = [&](const torch::Tensor& tensor) {
      return rank == 2 ? tensor.narrow(1, 0, 4).contiguous() : tensor;
    };
    EXPECT_EQ(call(softmax_classes, narrow(p.features), narrow(p.weights)),
              scope + "D = 4 in Double and 11 classes (rank 2)");
    const auto type = rank == 1 ? torch::kFloat32 : torch::kFloat64;
    EXPECT_EQ(call(softmax_classes, p.features.to(type), p.weights.to(type)),
              scope + "D = 6 in Float and 11 classes (rank 1)");
    const auto more = torch::cat({p.weights, p.weights});
    EXPECT_EQ(call(rank == 1 ? 2 * softmax_classes : softmax_classes, p.features, more),
              scope + "D = 6 in Double and 22 classes (rank 1)");
    EXPECT_EQ(call(softmax_classes, p.features, p.weights), "no exception");
  });
}

/// One rank's fault ends all with the same words, and they can go on together.
TEST(ClassSharded, RefusesOnEveryRankWhatOneCannotUse) {
  const auto p = problem();
  on_gloo_ranks(3, [&](TensorCommunicator& communicator) {
    const int rank = communicator.rank();
    const auto range = class_range(softmax_classes, rank, 3);
    const auto own = p.weights.narrow(0, range.begin, range.size());
    const auto call = [&](const torch::Tensor& labels, const torch::Tensor& weights) {
      return thrown<std::invalid_argument>(
          [&] { class_sharded_softmax(p.features, labels, weights, range, {}, {}, communicator); });
    };
    const std::string scope = "[margin_loss] ";
    EXPECT_EQ(call(rank == 1 ? torch::full_like(p.labels, 11) : p.labels, own),
              scope + "needs labels in [0, 11), received 11 (rank 1)");
    EXPECT_TRUE(call(rank == 2 ? p.labels - 100 : p.labels, own)
                    .starts_with(scope + "needs labels in [0, 11), received -"));
    EXPECT_EQ(call(p.labels, rank == 2 ? p.weights : own),
              scope + "needs weights of 3 classes, received 11 (rank 2)");
    EXPECT_EQ(call(p.labels, own), "no exception");
    const auto nothing = class_sharded_softmax(
        p.features.narrow(0, 0, 0), p.labels.narrow(0, 0, 0), own, range, {}, {}, communicator);
    EXPECT_EQ(nothing.loss, 0);
    EXPECT_EQ(nothing.samples, 0);
    EXPECT_EQ(nothing.feature_gradient.size(0), 0);
    EXPECT_TRUE(torch::equal(nothing.weight_gradient, torch::zeros_like(own)));
  });
}

}  // namespace
}  // namespace dimred::engine
