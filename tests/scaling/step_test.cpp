#include "scaling/step.h"

#include <gtest/gtest.h>

#include <array>

namespace dimred::scaling {
namespace {

TEST(StepBytes, OneRankSendsNothing) {
  const StepShape step{.ranks = 1, .columns = 1000, .trials = 3, .gathers = 2, .buffers = 10};
  EXPECT_EQ(stage1_bytes(step, std::array<std::int64_t, 1>{1000}), 0);
  EXPECT_EQ(stage2_bytes(step, {1000, 1000}), 0);
  EXPECT_EQ(mindspore_bytes(step), 0);
  EXPECT_EQ(pca_sum_bytes(60, 32, 1), 0);
}

/// Two ranks of an all-reduce send what it holds. 1000 + 10 float32 numbers, 3 + 2 doubles.
TEST(StepBytes, Stage1ByHand) {
  const StepShape step{.ranks = 2, .columns = 1000, .buffers = 10};
  EXPECT_EQ(stage1_bytes(step, std::array<std::int64_t, 2>{600, 400}), 4000 + 40 + 24 + 16);
}

/// Rank 0 of two owns 600 of 1000 columns: sends 400 of g, 600 of u; k + 2 = 5 numbers, the loss
/// and that of 2 trials of 3 each, 2 flags.
TEST(StepBytes, Stage2ByHand) {
  StepShape step{.ranks = 2, .columns = 1000, .components = 3, .trials = 2};
  const std::int64_t small = 8 * (5 + 3 + 2 * 3 + 2);
  EXPECT_EQ(stage2_bytes(step, {600, 600}), 4 * (400 + 600) + small);
  step.gathers = 2;
  EXPECT_EQ(stage2_bytes(step, {600, 600}), 4 * (400 + 600 + 600) + small);
  step.number_bytes = 2;
  EXPECT_EQ(stage2_bytes(step, {600, 600}), 2 * (400 + 600 + 600) + small);
  step.buffers = 10;
  EXPECT_EQ(stage2_bytes(step, {600, 600}), 2 * (400 + 600 + 600) + 20 + small);
}

/// Uneven shares change who sends, not how much all send.
TEST(StepBytes, SharesOfAnySizeSendTheSameTogether) {
  const StepShape step{.ranks = 3, .columns = 900};
  const auto together = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
    return stage2_bytes(step, {a, a}) + stage2_bytes(step, {b, b}) + stage2_bytes(step, {c, c});
  };
  EXPECT_EQ(together(300, 300, 300), together(500, 400, 0));
}

/// Two nodes of three ranks, 50 columns each but the first with 150: of g it sends the 200 of the
/// other places within the node and 50 to the other node; of u its 150 to the other
/// node and 200 to both neighbours.
TEST(StepBytes, NodesByHand) {
  const StepShape step{.ranks = 6, .nodes = 2, .columns = 400, .components = 3, .trials = 1};
  const Share share{.own_columns = 150, .columns_at_place = 200};
  const StepShape none{.ranks = 6, .nodes = 2, .columns = 0, .components = 3, .trials = 1};
  EXPECT_EQ(stage2_bytes(step, share) - stage2_bytes(none, {}), 4 * (250 + 150 + 2 * 200));
  EXPECT_EQ(bytes_between_nodes(step, share), 4 * (50 + 150));
}

/// Two ranks: all-reduce of 1000 numbers, 4 broadcasts of which each rank sends half.
TEST(StepBytes, MindSporeByHand) {
  const StepShape step{.ranks = 2, .columns = 1000, .components = 3, .trials = 1};
  EXPECT_EQ(mindspore_bytes(step), 4000 + 4 * 4000 / 2 + 8 * (5 + 3 + 3 + 2));
}

/// n = 3: 6 + 3 + 9 numbers; k = 2: 3, and two extremes of two rows from each of two ranks; 5 more.
TEST(StepBytes, PcaByHand) { EXPECT_EQ(pca_sum_bytes(3, 2, 2), 8 * (6 + 3 + 9 + 3 + 4 + 5)); }

}  // namespace
}  // namespace dimred::scaling
