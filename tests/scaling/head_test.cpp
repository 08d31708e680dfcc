#include "scaling/head.h"

#include <gtest/gtest.h>

namespace dimred::scaling {
namespace {

TEST(HeadShape, OneRankSendsNothing) {
  EXPECT_EQ(head_bytes({.classes = 10, .batch = 4}, 4), 0);
  EXPECT_EQ(replicated_head_bytes({.classes = 10}), 0);
}

/// Two ranks, 3 and 2 samples of 4 numbers: an all-reduce sends what it holds, 4 counts, 10 maxima,
/// 6 sums; rank 0 sends its 3 features and labels, and the gradients of the other's 2.
TEST(HeadShape, BytesByHand) {
  const HeadShape head{.ranks = 2, .classes = 10, .embedding = 4, .batch = 5};
  EXPECT_EQ(head_bytes(head, 3), 8 * (4 + 10 + 6) + 3 * (16 + 8) + 2 * 16);
  EXPECT_EQ(head_bytes(head, 3, false), 8 * (4 + 10 + 6) + 3 * (16 + 8));
  EXPECT_EQ(replicated_head_bytes(head), 10 * 4 * 4);
}

TEST(HeadShape, TheLargestLayersDoNotOverflow) {
  const HeadShape head{.ranks = 100'000, .classes = 1'000'000'000, .embedding = 65'536};
  EXPECT_EQ(replicated_head_bytes(head), 524'288'000'000'000 - 5'242'880'000);
}

/// 10 classes on 3 ranks: at most 4 each.
TEST(HeadShape, MemoryByHand) {
  const HeadShape head{.ranks = 3, .classes = 10, .embedding = 8, .batch = 6};
  const auto memory = head_memory(head);
  EXPECT_EQ(memory.weights, 2 * 4 * 32);
  EXPECT_EQ(memory.gradient, 4 * 32);
  EXPECT_EQ(memory.logits, 6 * 4 * 4);
  EXPECT_EQ(memory.features, 2 * 6 * 32);
  const auto whole = replicated_head_memory(head);
  EXPECT_EQ(whole.weights, 2 * 10 * 32);
  EXPECT_EQ(whole.logits, 2 * 10 * 4);
  HeadShape sampled = head;
  sampled.sampling_ratio = 0.25;  // one of 4, and at most 6 of the batch: no more than 4
  EXPECT_EQ(head_memory(sampled).gradient, 4 * 32);
  EXPECT_EQ(head_memory(sampled).weights, 3 * 4 * 32);
  EXPECT_EQ(head_memory({.classes = 100, .embedding = 1, .sampling_ratio = 0.07}).gradient, 8 * 4);
}

}  // namespace
}  // namespace dimred::scaling
