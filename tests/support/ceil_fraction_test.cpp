#include <gtest/gtest.h>

#include "support/ceiling.h"

namespace dimred {
namespace {

TEST(CeilFraction, IsTheCeilingOfTheDecimalProduct) {
  EXPECT_EQ(ceil_fraction(0.07, 100), 7);
  EXPECT_EQ(ceil_fraction(0.28, 25), 7);
  EXPECT_EQ(ceil_fraction(0.1, 97), 10);
  EXPECT_EQ(ceil_fraction(0.25, 20), 5);
  EXPECT_EQ(ceil_fraction(1e-9, 10), 1);
  EXPECT_EQ(ceil_fraction(0.07, 10'000'000'000), 700'000'000);
  EXPECT_EQ(ceil_fraction(1, 10'000'000'000'000), 10'000'000'000'000);
}

}  // namespace
}  // namespace dimred
