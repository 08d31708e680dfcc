#include "scaling/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace dimred::scaling {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t billion = 1000000000;

/// Only the vectors of M cost: large M, no latency.
CostPrediction predict_at(std::int64_t ranks, Problem problem = {.parameters = billion}) {
  return predict(problem, {.ranks = ranks, .ranks_per_node = 1000, .latency = 0});
}

double ratio(std::int64_t a, std::int64_t b) { return static_cast<double>(a) / b; }

TEST(Scaling, OneRankSendsNothingAndWaitsForNobody) {
  const auto one = predict({.parameters = 1000}, {.ranks = 1, .latency = 1});
  for (const auto* cost : {&one.stage1, &one.robust, &one.presets, &one.mindspore}) {
    EXPECT_EQ(cost->wire_bytes, 0);
    EXPECT_EQ(cost->wire_seconds, 0);
    EXPECT_EQ(cost->sums_seconds, 0);
  }
  EXPECT_EQ(one.pca.wire_bytes, 0);
}

/// 1 + R and 2 (1 + R) / 3; the small numbers are 1e-6 of the vectors here.
TEST(Scaling, MindSporeSendsNineTimesAsMuchAsRobustOnEightRanks) {
  for (const std::int64_t ranks : {2, 8, 64}) {
    const auto at = predict_at(ranks);
    const double expected = 1.0 + static_cast<double>(ranks);
    EXPECT_NEAR(ratio(at.mindspore.wire_bytes, at.robust.wire_bytes), expected, 1e-5 * expected);
    EXPECT_NEAR(
        ratio(at.mindspore.wire_bytes, at.presets.wire_bytes), expected * 2 / 3, 1e-5 * expected);
  }
}

/// Reduce-scatter and all-gather are an all-reduce; 2 (R - 1) / R vectors at `bandwidth`.
TEST(Scaling, RobustTakesTheWireOfStage1WithinANode) {
  const auto at = predict_at(8);
  EXPECT_NEAR(ratio(at.robust.wire_bytes, at.stage1.wire_bytes), 1, 1e-6);
  EXPECT_DOUBLE_EQ(at.stage1.wire_seconds, 1.75 * 4e9 / 300e9);
  EXPECT_DOUBLE_EQ(at.robust.wire_seconds, at.stage1.wire_seconds);
  EXPECT_DOUBLE_EQ(at.presets.wire_seconds, 1.5 * at.robust.wire_seconds);
  // An all-reduce and 16 broadcasts, each as long as its vector.
  EXPECT_DOUBLE_EQ(at.mindspore.wire_seconds, 17.75 * 4e9 / 300e9);
}

/// Two nodes of 4: two eighths to each of 3 ranks of its own node at 100 bytes/s, one to the other
/// node at 1; a ring has 4 connections between the nodes. Ranks that fill no nodes: to 3 ranks of
/// the own node and 3 of others at the same time.
TEST(Scaling, SlowerConnectionsBetweenNodesBound) {
  const Machine machine{
      .ranks = 8, .ranks_per_node = 4, .bandwidth = 100, .node_bandwidth = 1, .latency = 0};
  EXPECT_DOUBLE_EQ(exchange_seconds(machine, 100), 6 + 100);
  EXPECT_DOUBLE_EQ(ring_seconds(machine, 100), 25);
  auto fast = machine;
  fast.node_bandwidth = 1e6;
  EXPECT_DOUBLE_EQ(exchange_seconds(fast, 100), 6 + 1e-4);
  EXPECT_DOUBLE_EQ(ring_seconds(fast, 100), 1);
  auto uneven = machine;
  uneven.ranks = 7;
  EXPECT_DOUBLE_EQ(exchange_seconds(uneven, 100), 300);
}

/// k + 2 numbers, loss, stop flags, one loss a trial; 2 (R - 1) steps of a ring each.
TEST(Scaling, SmallSumsTakeLatency) {
  const auto at = predict({.parameters = 1000, .trials = 4}, {.ranks = 8, .latency = 1});
  EXPECT_DOUBLE_EQ(at.robust.sums_seconds, 7 * 14);
  EXPECT_DOUBLE_EQ(at.stage1.sums_seconds, 2 * 14);
}

TEST(Scaling, MemoryOfTheBasisIsSharedAndHalfInBfloat16) {
  const auto whole = predict_at(1).robust_memory.basis;
  EXPECT_EQ(whole, 32 * billion * 4);
  for (const std::int64_t ranks : {2, 8, 1000})
    EXPECT_EQ(predict_at(ranks).robust_memory.basis, whole / ranks);
  EXPECT_EQ(predict_at(3).robust_memory.basis, 32LL * 333333334 * 4);  // the largest share
  const Problem half{.parameters = billion, .basis = BasisType::bfloat16};
  EXPECT_EQ(predict_at(8, half).robust_memory.basis, whole / 16);
  EXPECT_DOUBLE_EQ(predict_at(8, half).robust.basis_seconds,
                   predict_at(8).robust.basis_seconds / 2);
}

/// w, g, start; with several ranks u, presets m too. Stage 1: w, g, m.
TEST(Scaling, WholeVectorsStayOnEveryRank) {
  const auto one = predict_at(1), many = predict_at(100);
  EXPECT_EQ(one.robust_memory.whole, 3 * 4 * billion);
  EXPECT_EQ(many.robust_memory.whole, 4 * 4 * billion);
  EXPECT_EQ(many.presets_memory.whole, 5 * 4 * billion);
  EXPECT_EQ(many.stage1_memory.total(), 3 * 4 * billion);
  EXPECT_EQ(many.robust_memory.total(), (16 + 4 * 32 / 100.0 + 5 * 4 / 100.0) * billion);
}

/// 2 x 4 x 32 bytes a column at 4.8e12 bytes/s: ResNet-50's P in 1.36 ms.
TEST(Scaling, PIsReadTwice) {
  const Problem resnet50{.parameters = 25557032};
  EXPECT_NEAR(predict_at(1, resnet50).robust.basis_seconds, 1.363e-3, 1e-6);
}

/// One rank: gradient zeroed 1, start 2, trial 3, algebra 19 vectors. Stage 1: 1, and SGD's 5.
TEST(Scaling, PassesByHand) {
  const Problem problem{.parameters = 1200};
  const Machine machine{.ranks = 1, .memory_bandwidth = 4800};
  const auto at = predict(problem, machine);
  EXPECT_DOUBLE_EQ(at.robust.passes_seconds, 25);
  EXPECT_DOUBLE_EQ(at.presets.passes_seconds, 23);
  EXPECT_DOUBLE_EQ(at.stage1.passes_seconds, 6);
  // Two ranks: 6 whole; 19 of the own half, and copies and sums of the exchange 3 + 4 + 2.
  const auto two = predict(problem, {.ranks = 2, .memory_bandwidth = 4800});
  EXPECT_DOUBLE_EQ(two.robust.passes_seconds, 6 + (19 + 9) / 2.0);
}

/// Forward and backward, and a third for each trial; stage 1 hides its wire behind two thirds.
TEST(Scaling, SecondsAddUp) {
  const Problem problem{.parameters = billion, .trials = 3, .compute_seconds = 3};
  const auto at = predict_at(8, problem);
  EXPECT_DOUBLE_EQ(at.robust.compute_seconds, 6);
  EXPECT_DOUBLE_EQ(at.robust.seconds(),
                   6 + at.robust.wire_seconds + at.robust.basis_seconds + at.robust.passes_seconds);
  EXPECT_DOUBLE_EQ(at.stage1.seconds(), 3 + at.stage1.passes_seconds);
  const Machine slow{.ranks = 8, .bandwidth = 7e8, .latency = 0};  // 10 s on the wire
  const auto exposed = predict(problem, slow).stage1;
  EXPECT_DOUBLE_EQ(exposed.seconds(), 3 + 10 - 2 + exposed.passes_seconds);
}

/// Gram matrix, components: two reads.
TEST(Scaling, PcaReadsSnapshotsTwice) {
  const auto pca = predict({.parameters = billion}, {.ranks = 4, .read_bandwidth = 48e9}).pca;
  EXPECT_EQ(pca.snapshots_bytes, 60 * 4 * billion);
  EXPECT_EQ(pca.matrix_bytes, 32 * 4 * billion);
  EXPECT_DOUBLE_EQ(pca.read_seconds, 10);
  EXPECT_EQ(pca.gram_bytes, 8 * 60 * 60);
}

TEST(ScalingLimits, NothingBreaksWhereAllIsSmall) {
  const Problem problem{.parameters = 25557032, .compute_seconds = 0.07};
  const Machine machine{.ranks = 8, .memory = 80e9, .disk = 1e12};
  EXPECT_THAT(limits(problem, machine, predict(problem, machine)), ElementsAre());
}

std::vector<std::string> limits_of(const Problem& problem, const Machine& machine) {
  return limits(problem, machine, predict(problem, machine));
}

/// 1 B on 2 ranks: 20 + 64 + 8 GB; 20 + 16 + 2 on 8.
TEST(ScalingLimits, MemoryNamesRanksThatFit) {
  EXPECT_THAT(limits_of({.parameters = billion}, {.ranks = 2, .memory = 80e9}),
              ElementsAre(HasSubstr("; 4 ranks would fit")));
  EXPECT_THAT(limits_of({.parameters = billion}, {.ranks = 2, .memory = 15e9}),
              ElementsAre(HasSubstr("no number of ranks fits")));
}

TEST(ScalingLimits, SlowWireAndDiskAreNamed) {
  const Problem problem{.parameters = billion, .compute_seconds = 0.5};
  EXPECT_THAT(limits_of(problem, {.ranks = 8, .bandwidth = 1e9, .disk = 367e9}),
              ElementsAre(HasSubstr("wire: "), HasSubstr("disk: ")));
  EXPECT_THAT(limits_of(problem, {.ranks = 8, .disk = 368e9}), ElementsAre());
}

/// 64 ranks: 2 x (7 / 8 of a vector at 300e9 and 7 / 64 at 50e9) against 2 x 63 / 64 at 300e9.
TEST(ScalingLimits, LatencyNodesAndAlgebraAreNamed) {
  EXPECT_THAT(limits_of({.parameters = 1000000}, {.ranks = 8}),
              ElementsAre(HasSubstr("latency: 4 sums")));
  EXPECT_THAT(limits_of({.parameters = billion}, {.ranks = 64}),
              ElementsAre(HasSubstr("nodes: exchanges take 1.6 times")));
  EXPECT_THAT(limits_of({.parameters = billion, .compute_seconds = 0.5}, {.ranks = 1}),
              ElementsAre(HasSubstr("algebra: ")));
}

void expect_refused(const Problem& problem, const Machine& machine, const std::string& text) {
  try {
    predict(problem, machine);
    ADD_FAILURE() << "accepted; expected " << text;
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(Scaling, RefusesWhatHasNoMeaning) {
  expect_refused({.parameters = 0}, {}, "[scaling] M needs a number in [1, 1e+13], received 0");
  expect_refused({.parameters = 9, .components = 60}, {}, "received n = 60, k = 60");
  expect_refused({.parameters = 9}, {.ranks = 0}, "R needs a number in [1, 100000], received 0");
  expect_refused({.parameters = 9}, {.bandwidth = 0}, "bandwidth needs a number in (0, 1e18)");
  expect_refused({.parameters = 9}, {.latency = -1}, "latency needs >= 0, received -1");
  expect_refused({.parameters = 9, .compute_seconds = 0}, {}, "seconds needs > 0, received 0");
}

/// The largest numbers allowed stay within 64 bits.
TEST(Scaling, LargestNumbersDoNotOverflow) {
  const Problem problem{.parameters = 10000 * billion, .components = 9999, .snapshots = 10000};
  const auto at = predict(problem, {.ranks = 100000});
  for (const auto bytes : {at.mindspore.wire_bytes, at.pca.read_bytes, at.robust_memory.total()})
    EXPECT_GT(bytes, 0);
  EXPECT_NEAR(ratio(at.mindspore.wire_bytes, at.robust.wire_bytes), 100001, 1);
}

}  // namespace
}  // namespace dimred::scaling
