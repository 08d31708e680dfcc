#include "checkpoints/verbs/fold.h"

#include <gtest/gtest.h>

namespace dimred::verbs {
namespace {

TEST(Transposed, SwapsRowsAndColumns) {
  EXPECT_EQ(transposed(std::vector<double>{1, 2, 3, 4, 5, 6}, 2),
            (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

/// 3 x 4, of rank 2; the product of small integers is exact.
const LowRankUpdate update{.scale = 0.5,
                           .rank = 2,
                           .columns = 4,
                           .left = {1, 2, 3, 4, 5, 6},
                           .right = {1, 0, -1, 2, 3, 1, 4, -2}};

TEST(AddUpdate, IsTheScaledProduct) {
  std::vector<double> sums(12, 10);
  add_update(update, 0, sums);
  EXPECT_EQ(sums, (std::vector<double>{13.5, 11, 13.5, 9, 17.5, 12, 16.5, 9, 21.5, 13, 19.5, 9}));
}

TEST(AddUpdate, DoesNotDependOnHowTheWeightIsCut) {
  std::vector<double> whole(12, 0.1);
  add_update(update, 0, whole);
  for (std::int64_t block = 1; block < 12; ++block) {
    std::vector<double> cut(12, 0.1);
    for (std::int64_t first = 0; first < 12; first += block)
      add_update(
          update, first, std::span(cut).subspan(first, std::min<std::int64_t>(block, 12 - first)));
    EXPECT_EQ(cut, whole) << block;
  }
}

}  // namespace
}  // namespace dimred::verbs
