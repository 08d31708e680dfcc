#include "method/average.h"

#include <gtest/gtest.h>

namespace dimred::method {
namespace {

TEST(Average, ForgetsItsBeginningFasterWhileItIsYoung) {
  const auto decay = [](double most, std::int64_t count) {
    const AverageOptions ema{.kind = AverageKind::ema, .from = 0, .decay = most, .warmup = true};
    return 1 - share_of_next(ema, count, 1).value();
  };
  EXPECT_DOUBLE_EQ(decay(0.99, 1), 2.0 / 11);
  EXPECT_DOUBLE_EQ(decay(0.99, 2), 3.0 / 12);
  EXPECT_DOUBLE_EQ(decay(0.99, 889), 890.0 / 899);  // below 0.99
  EXPECT_DOUBLE_EQ(decay(0.99, 890), 0.99);
  EXPECT_DOUBLE_EQ(decay(0.1, 1), 0.1);
}

/// The mean of 1, 2, 3, 4, reached at the progress 0.25, 0.5, 0.75, 1.
TEST(Average, IsOfTheIteratesThatCount) {
  const auto of = [](const AverageOptions& options) {
    double average = 0;
    std::int64_t count = 0;
    for (int i = 1; i <= 4; ++i)
      if (const auto share = share_of_next(options, count, i / 4.0)) {
        average += *share * (i - average);
        ++count;
      }
    return std::pair{count, average};
  };
  EXPECT_EQ(of({.kind = AverageKind::uniform, .from = 0}), std::pair(std::int64_t{4}, 2.5));
  EXPECT_EQ(of({.kind = AverageKind::uniform, .from = 0.6}), std::pair(std::int64_t{2}, 3.5));
  // 1, then 1.25, 1.6875, 2.265625 by a <- 0.75 a + 0.25 w
  EXPECT_EQ(of({.kind = AverageKind::ema, .from = 0, .decay = 0.75}),
            std::pair(std::int64_t{4}, 2.265625));
  EXPECT_EQ(of({}).first, 0);
}

}  // namespace
}  // namespace dimred::method
