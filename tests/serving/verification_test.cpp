#include "serving/verification.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/errors.h"
#include "tests/tools/temporary_folder.h"

// What the published procedure of tests/python/test_verification.py does not meet.
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

TEST(PairDistances, OfEmbeddingsWithoutALengthAreFinite) {
  const std::vector<Pair> pairs{{0, 1}};
  const std::vector<double> zeros(4);
  EXPECT_EQ(pair_distances(zeros, {}, 2, pairs)[0], 0);
}

std::string refusal(const Problem& problem) {
  return thrown<std::invalid_argument>([&] { verify(problem.distances, problem.pairs); });
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
