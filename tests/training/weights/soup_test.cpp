#include "training/weights/soup.h"

#include <gtest/gtest.h>

namespace dimred::training {
namespace {

TEST(ChooseGreedily, TakesAsThePublishedRecipeDoes) {
  // Alone 3 and 1 are best; 2 makes the mean worse, 0 leaves it as good.
  std::vector<std::size_t> taken;
  const auto with = [&](std::size_t i) {
    if (taken == std::vector<std::size_t>{3}) return i == 1 ? 0.92 : 0.0;
    return i == 2 ? 0.91 : 0.92;
  };
  choose_greedily({0.7, 0.9, 0.8, 0.9}, with, [&](std::size_t i) { taken.push_back(i); });
  EXPECT_EQ(taken, (std::vector<std::size_t>{3, 1, 0}));
}

}  // namespace
}  // namespace dimred::training
