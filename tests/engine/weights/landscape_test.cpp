#include "engine/weights/landscape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/tools/gloo_ranks.h"

namespace dimred::engine {
namespace {

using Numbers = std::vector<double>;

/// Integers, so that every sum is exact.
TEST(Plane, CoordinatesAreTheOrthogonalProjection) {
  Plane plane{.center = torch::tensor({1.F, 2.F, 3.F, 4.F}),
              .first = torch::tensor({0.F, 1.F, 0.F, 0.F}),
              .second = torch::tensor({0.F, 0.F, 0.F, -1.F})};
  const auto at = coordinates(plane, torch::tensor({4.F, 9.F, 7.F, 2.F}));
  EXPECT_EQ(at.a, 7);
  EXPECT_EQ(at.b, 2);
  EXPECT_EQ(at.distance, 5);  // (3, 4) across
  const auto center = coordinates(plane, plane.center);
  EXPECT_EQ((Numbers{center.a, center.b, center.distance}), (Numbers{0, 0, 0}));
}

TEST(Axis, HasBothItsEndsAndTheCenterOfAnOddNumber) {
  const Axis axis{.low = -0.3, .high = 0.1, .points = 5};
  EXPECT_EQ(axis.at(0), -0.3);
  EXPECT_EQ(axis.at(4), 0.1);
  EXPECT_NEAR(axis.at(3), 0, 1e-16);
  EXPECT_EQ((Axis{.low = -2, .high = 4, .points = 1}.at(0)), 1);
}

TEST(Axis, HoldsThePathTheCenterAndAMargin) {
  const auto axis = axis_around({3, 8, 4}, 0.25, 7);
  EXPECT_EQ((Numbers{axis.low, axis.high}), (Numbers{-2, 10}));
  EXPECT_EQ(axis.points, 7);
  const auto both = axis_around({-1, 3}, 0, 2);
  EXPECT_EQ((Numbers{both.low, both.high}), (Numbers{-1, 3}));
  const auto none = axis_around({0, 0}, 0.5, 2);
  EXPECT_EQ(none.low, none.high);
}

TEST(DrawnIndices, AreDistinctAscendingAndGrowWithTheirCount) {
  const auto few = drawn_indices(100, 10, 4), more = drawn_indices(100, 40, 4);
  EXPECT_EQ(few.size(), 10U);
  EXPECT_TRUE(std::is_sorted(more.begin(), more.end()));
  const std::set<std::int64_t> all(more.begin(), more.end());
  EXPECT_EQ(all.size(), 40U);
  for (const auto index : few) EXPECT_TRUE(all.contains(index));
  EXPECT_NE(drawn_indices(100, 10, 5), few);
  std::vector<std::int64_t> whole(7);
  std::iota(whole.begin(), whole.end(), 0);
  for (const int count : {0, 7, 9}) EXPECT_EQ(drawn_indices(7, count, 1), whole);
}

/// Every rank gets what one rank alone gets, and does no more than its share.
TEST(SharedAmong, AnyNumberOfRanksGivesTheSame) {
  constexpr std::int64_t count = 7;
  Numbers expected;
  for (int i = 0; i < count; ++i) expected.insert(expected.end(), {10. + i, 1. / (i + 1)});
  for (const int ranks : {1, 2, 3, 8}) {
    on_gloo_ranks(ranks, [&](distributed::TensorCommunicator& communicator) {
      std::vector<std::int64_t> done;
      int worked = 0;
      const auto all = shared_among(
          communicator,
          count,
          2,
          [&](std::int64_t i) {
            ++worked;
            return Numbers{10. + static_cast<double>(i), 1. / static_cast<double>(i + 1)};
          },
          [&](std::int64_t items) { done.push_back(items); });
      EXPECT_EQ(all, expected);
      EXPECT_LE(worked, (count + ranks - 1) / ranks);
      EXPECT_EQ(done.back(), count);
      EXPECT_EQ(std::ssize(done), (count + ranks - 1) / ranks);
    });
  }
}

}  // namespace
}  // namespace dimred::engine
