#include <gtest/gtest.h>

#include "optimizers/rule.h"

namespace dimred::optimizers {
namespace {

layout::Layout sgd_segments() {
  return layout::make_layout(
      {{.name = "weight", .shape = {5, 7}}, {.name = "bias", .shape = {5}, .decay = false}});
}

TEST(Sgd, DecayRangesCoverEveryColumnOnce) {
  const auto layout = sgd_segments();
  const auto ranges = decay_ranges(layout);
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_TRUE(ranges[0].decay);
  EXPECT_FALSE(ranges[1].decay);
  EXPECT_EQ(ranges[0].columns, (layout::ColumnRange{0, layout.entries[1].memory_offset}));
  EXPECT_EQ(ranges[1].columns,
            (layout::ColumnRange{layout.entries[1].memory_offset, layout.memory_size}));
}

TEST(Sgd, RefusesOptionsOutOfRange) {
  for (const auto& options : {SgdOptions{.momentum = 1},
                              SgdOptions{.weight_decay = -1},
                              SgdOptions{.momentum = 0, .nesterov = true}})
    EXPECT_THROW(validate({.sgd = options}), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::optimizers
