#include "support/part_of.h"

#include <gtest/gtest.h>

namespace dimred {
namespace {

TEST(PartOf, IsTheCeilingOfTheDecimalProduct) {
  EXPECT_EQ(part_of(0.07, 100), 7);
  EXPECT_EQ(part_of(0.28, 25), 7);
  EXPECT_EQ(part_of(0.1, 97), 10);
  EXPECT_EQ(part_of(0.25, 20), 5);
  EXPECT_EQ(part_of(1e-9, 10), 1);
  EXPECT_EQ(part_of(0.07, 10'000'000'000), 700'000'000);
  EXPECT_EQ(part_of(1, 10'000'000'000'000), 10'000'000'000'000);
}

}  // namespace
}  // namespace dimred
