#include "serving/verification.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/errors.h"

namespace dimred::serving {
namespace {

/// Pairs of both kinds in turn, the same first, at these distances.
struct Problem {
  std::vector<double> distances;
  std::vector<Pair> pairs;
};

Problem alternating(std::size_t pairs, double same, double different) {
  Problem problem;
  for (std::size_t i = 0; i < pairs; ++i) {
    problem.pairs.push_back({.same = i % 2 == 0});
    problem.distances.push_back(i % 2 == 0 ? same : different);
  }
  return problem;
}

TEST(Verify, WhatIsSeparableIsToldApart) {
  const auto problem = alternating(40, 0.505, 1.5055);
  const auto result = verify(problem.distances, problem.pairs);
  EXPECT_EQ(result.accuracy, 1);
  EXPECT_EQ(result.accuracy_deviation, 0);
  EXPECT_EQ(result.tar, 1);
  EXPECT_EQ(result.far, 0);
  ASSERT_EQ(result.folds.size(), 10U);
  for (const auto& fold : result.folds) {
    EXPECT_DOUBLE_EQ(fold.threshold, 0.51);  // the smallest of the best
    // Between 1.505, which accepts nothing, and 1.506, which accepts all: a thousandth of the way.
    EXPECT_NEAR(fold.tar_threshold, 1.505001, 1e-12);
  }
  ASSERT_EQ(result.roc.size(), 400U);
  EXPECT_DOUBLE_EQ(result.roc[399].threshold, 3.99);
  EXPECT_EQ(result.roc[50].true_positive_rate, 0);
  EXPECT_NEAR(result.roc[51].true_positive_rate, 1, 1e-15);
  EXPECT_EQ(result.roc[150].false_positive_rate, 0);
  EXPECT_NEAR(result.roc[151].false_positive_rate, 1, 1e-15);
}

/// A threshold is not itself closer than itself.
TEST(Verify, AcceptsWhatIsCloserOnly) {
  const auto problem = alternating(20, 0.25, 0.25);
  const auto result = verify(problem.distances, problem.pairs);
  EXPECT_EQ(result.accuracy, 0.5);
  EXPECT_EQ(result.roc[25].true_positive_rate, 0);
  EXPECT_NEAR(result.roc[26].true_positive_rate, 1, 1e-15);
}

/// Different pairs that no threshold reaches: nobody is accepted.
TEST(Verify, AFalseAcceptRateOutOfReachAcceptsNobody) {
  const auto problem = alternating(20, 0.1, 4);
  const auto result = verify(problem.distances, problem.pairs);
  EXPECT_EQ(result.folds[0].tar_threshold, 0);
  EXPECT_EQ(result.tar, 0);
  EXPECT_EQ(result.accuracy, 1);
}

/// One fold of ten is wrong: 0.9 of the folds' means, 0.3 their deviation.
TEST(Verify, FoldsAreTenthsInOrder) {
  auto problem = alternating(20, 0.1, 3);
  std::swap(problem.distances[4], problem.distances[5]);
  const auto result = verify(problem.distances, problem.pairs);
  EXPECT_EQ(result.folds[2].accuracy, 0);
  EXPECT_NEAR(result.accuracy, 0.9, 1e-15);
  EXPECT_NEAR(result.accuracy_deviation, 0.3, 1e-15);
}

/// (3, 4) and (0, 2): unit (0.6, 0.8) and (0, 1); with the flipped (1, 0) and (0, 0): (4, 4) and
/// (0, 2).
TEST(PairDistances, AreOfUnitSums) {
  const std::vector<double> plain{3, 4, 0, 2}, flipped{1, 0, 0, 0};
  const std::vector<Pair> pairs{{0, 1}};
  EXPECT_NEAR(pair_distances(plain, {}, 2, pairs)[0], 0.36 + 0.04, 1e-15);
  EXPECT_NEAR(pair_distances(plain, flipped, 2, pairs)[0], 2 - std::sqrt(2), 1e-15);
  EXPECT_NEAR(mean_length(plain, {}, 2, pairs), 3.5, 1e-15);
  EXPECT_NEAR(mean_length(plain, flipped, 2, pairs), (5 + 2 + 1 + 0) / 4.0, 1e-15);
  const std::vector<double> zeros(4);
  EXPECT_EQ(pair_distances(zeros, {}, 2, pairs)[0], 0);
}

std::string refusal(const Problem& problem) {
  try {
    verify(problem.distances, problem.pairs);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Verify, RefusesListsThatFoldsCannotBeMadeOf) {
  EXPECT_EQ(refusal(alternating(9, 0, 1)), "[verify] needs at least 10 pairs, received 9");
  auto sorted = alternating(20, 0, 1);
  for (std::size_t i = 0; i < 20; ++i) sorted.pairs[i].same = i < 10;
  EXPECT_EQ(refusal(sorted),
            "[verify] needs pairs with 1 (same) and with 0 (different) in each tenth of the list, "
            "received no pair with 0 from pair 1 to pair 2; shuffle the list");
  EXPECT_THROW(require_folds(sorted.pairs), std::invalid_argument);  // without any distance
  auto broken = alternating(20, 0, 1);
  broken.distances[7] = std::nan("");
  EXPECT_EQ(refusal(broken),
            "[verify] needs finite embeddings, but an embedding of pair 8 is not finite");
}

}  // namespace
}  // namespace dimred::serving
