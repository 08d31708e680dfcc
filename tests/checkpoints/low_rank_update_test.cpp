#include "checkpoints/low_rank_update.h"

#include <gtest/gtest.h>

namespace dimred::checkpoints {
namespace {

TEST(LowRankUpdate, IsTurnedWhereTheWeightIs) {
  const std::vector<double> a{1, 2, 3, 4, 5, 6}, b{1, 2, 3, 4};
  std::vector<double> product(6), transpose(6);
  add_update(low_rank_update(a, b, 2, /*turned=*/false), 0, product);
  add_update(low_rank_update(a, b, 2, /*turned=*/true), 0, transpose);
  EXPECT_EQ(product, (std::vector<double>{9, 12, 15, 19, 26, 33}));
  EXPECT_EQ(transpose, (std::vector<double>{9, 19, 12, 26, 15, 33}));
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
}  // namespace dimred::checkpoints
