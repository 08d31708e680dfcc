#include "pca/trajectory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <utility>
#include <vector>

#include "pca/report.h"
#include "pca/straightness.h"
#include "pca/trajectory_text.h"
#include "support/errors.h"
#include "tests/pca/laid_out.h"
#include "tests/pca/matrices.h"

namespace dimred::pca {
namespace {

using testing::LaidOutSource;
using testing::layered_snapshots;
using testing::Matrix;
using testing::random_matrix;
using testing::six_layers;
using testing::source_of;

/// How increments are simulated: [steps x dimensions], AR(phi) of unit variance and a drift along
/// the first axis whose energy over the whole run is rho times the noise's.
struct Simulated {
  std::int64_t steps = 0;
  std::int64_t dimensions = 0;
  double phi = 0;
  double rho = 0;
};

Matrix increments_of(const Simulated& how, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Matrix steps(how.steps, how.dimensions);
  for (std::int64_t j = 0; j < how.dimensions; ++j) {
    double value = normal(random);
    for (std::int64_t i = 0; i < how.steps; ++i) {
      steps(i, j) = value;
      value = how.phi * value + std::sqrt(1 - how.phi * how.phi) * normal(random);
    }
  }
  const auto noise = static_cast<double>(how.steps * how.dimensions);
  steps.col(0).array() += std::sqrt(how.rho * noise) / static_cast<double>(how.steps);
  return steps;
}

/// Snapshots from a base of ones on, with these steps.
Matrix snapshots_of(const Matrix& steps) {
  Matrix rows = Matrix::Ones(steps.rows() + 1, steps.cols());
  for (std::int64_t i = 0; i < steps.rows(); ++i) rows.row(i + 1) = rows.row(i) + steps.row(i);
  return rows;
}

Straightness straightness_of(const Matrix& gram, const WalkNull& null, double cosine = 0) {
  const Eigen::MatrixXd columns = gram;
  return straightness_of_all({&columns, 1}, {&cosine, 1}, null, 1).front();
}

/// The share of `walks` simulated ones whose straightness is rejected at 0.05.
double rejected(const Simulated& how, int walks, unsigned seed) {
  std::mt19937_64 random(seed);
  int count = 0;
  for (int walk = 0; walk < walks; ++walk) {
    const Matrix steps = increments_of(how, random);
    const auto draws = static_cast<std::uint64_t>(walk);
    const WalkNull null{.increments = {.count = 199, .seed = draws},
                        .blocks = {.count = 0, .seed = draws}};
    count += straightness_of(steps * steps.transpose(), null).walk.p_value < 0.05 ? 1 : 0;
  }
  return static_cast<double>(count) / walks;
}

/// The standard deviation of the part of 2,000 walks is 0.005.
TEST(Trajectory, RejectsAWalkAsOftenAsItSays) {
  for (const double part : {rejected({.steps = 20, .dimensions = 18}, 2000, 1),
                            rejected({.steps = 40, .dimensions = 2}, 2000, 2)}) {
    EXPECT_GE(part, 0.03);
    EXPECT_LE(part, 0.07);
  }
}

/// Against 0.60 of the published simulation at rho = 1 and 18 effective dimensions.
TEST(Trajectory, FindsADriftAsOftenAsItShould) {
  EXPECT_NEAR(rejected({.steps = 40, .dimensions = 18, .rho = 1}, 500, 3), 0.6, 0.07);
  EXPECT_GT(rejected({.steps = 40, .dimensions = 18, .rho = 3}, 200, 4), 0.98);
}

TEST(Trajectory, DoesNotCallMomentumADrift) {
  std::mt19937_64 random(5);
  for (const double phi : {0.2, 0.5}) {
    int straight = 0;
    for (int walk = 0; walk < 15; ++walk) {
      const Simulated how{.steps = 74, .dimensions = 400, .phi = phi};
      const auto source = source_of(snapshots_of(increments_of(how, random)));
      const auto found = measure_trajectory(*source, {.flips = 99, .threads = 1}).whole;
      straight += found.straightness.p_value < 0.05 ? 1 : 0;
      EXPECT_EQ(found.verdict, Verdict::correlated) << text_of(found.verdict);
      EXPECT_NEAR(found.directions.cosines.at(0), phi, 0.03);
      EXPECT_NEAR(found.directions.cosines.at(1), phi * phi, 0.03);
    }
    EXPECT_GT(straight, 13);  // which signs alone would have published
  }
}

/// The share of `walks` simulated ones whose verdict is `drift`.
double called_drift(const Simulated& how, int walks, unsigned seed) {
  std::mt19937_64 random(seed);
  int count = 0;
  for (int walk = 0; walk < walks; ++walk) {
    const auto source = source_of(snapshots_of(increments_of(how, random)));
    const TrajectoryOptions options{
        .flips = 99, .seed = static_cast<std::uint64_t>(walk), .threads = 1};
    count += measure_trajectory(*source, options).whole.verdict == Verdict::drift ? 1 : 0;
  }
  return static_cast<double>(count) / walks;
}

/// A drift is found even if few increments of few dimensions leave much correlation possible.
TEST(Trajectory, TellsDriftFromMomentumInFewDimensions) {
  EXPECT_LE(called_drift({.steps = 20, .dimensions = 2, .phi = 0.2}, 400, 10), 0.0125);
  EXPECT_GE(called_drift({.steps = 74, .dimensions = 18, .rho = 3}, 60, 11), 0.75);
}

/// S of AR(c) is (1 + c) / (1 - c) times as large: of two equal steps S is 2, of signs 2 or 0.
TEST(Trajectory, ComparesWithAWalkOfCorrelatedNeighbours) {
  const WalkNull null{.increments = {.count = 9999}, .blocks = {.count = 0}};
  const auto p_of = [&](std::int64_t increments, double cosine) {
    return straightness_of(Matrix::Ones(increments, increments), null, cosine).p_momentum;
  };
  EXPECT_NEAR(p_of(2, 0), 1, 0.03);               // half of the signs
  EXPECT_NEAR(p_of(5, 0.4), 2 * 2.0 / 32, 0.01);  // 5; signs: 5, 1.8, 0.2 of 2, 10, 20 of 32
  EXPECT_NEAR(p_of(5, 0.5), 2 * 12.0 / 32, 0.03);
}

TEST(Trajectory, SaysWhatAnyKindOfStepsIs) {
  std::mt19937_64 random(6);
  const auto verdict_of = [&](const Matrix& steps) {
    return measure_trajectory(*source_of(snapshots_of(steps)), {.threads = 1}).whole.verdict;
  };
  const Simulated walk{.steps = 30, .dimensions = 300};
  Simulated drift = walk;
  drift.rho = 10;
  EXPECT_EQ(verdict_of(increments_of(walk, random)), Verdict::random_walk);
  EXPECT_EQ(verdict_of(increments_of(drift, random)), Verdict::drift);
  // White noise around a point: each step takes back what the one before it did.
  const Matrix points = increments_of({.steps = 31, .dimensions = 300}, random);
  EXPECT_EQ(verdict_of(points.bottomRows(30) - points.topRows(30)), Verdict::returning);
}

/// PC1 of many walks: 1 / (4 sin^2(pi / (4 n + 2))) of n (n + 1) / 2 from the base.
TEST(Trajectory, ShowsTheWalkOfTheClosedForms) {
  constexpr int n = 74;
  const auto source =
      source_of(snapshots_of(increments_of({n, 50}, *std::make_unique<std::mt19937_64>(7))));
  const auto found = measure_trajectory(*source, {.flips = 19, .window = 38}).whole;
  const double sine = std::sin(std::numbers::pi / (2 * (2 * n + 1)));
  EXPECT_NEAR(found.base.pc1.walk, 1 / (4 * sine * sine) / (0.5 * n * (n + 1)), 1e-12);
  EXPECT_NEAR(found.base.r2.walk, 0.958, 0.003);
  EXPECT_NEAR(found.centred.pc1.walk, random_walk_ratio(n + 1, 1).front(), 1e-12);
  EXPECT_NEAR(found.centred.r2.walk, 96 / std::pow(std::numbers::pi, 4), 0.003);
  EXPECT_NEAR(found.windows.pc1.walk, 0.93, 0.01);  // as many starts as a window has snapshots
  EXPECT_GT(found.windows.r2.walk, 0.985);
  EXPECT_EQ(found.straightness.walk, 1);
}

/// The statistics of the points themselves, by an SVD of them.
TEST(Trajectory, MeasuresThePoints) {
  std::mt19937_64 random(8);
  const Matrix rows =
      snapshots_of(increments_of({.steps = 24, .dimensions = 60, .rho = 1}, random));
  const auto found = measure_trajectory(*source_of(rows), {.flips = 19, .window = 5}).whole;
  const Matrix stored = rows.cast<float>().cast<double>();
  const Matrix moved = stored.rowwise() - stored.row(0);
  Matrix means(21, 60);
  for (int i = 0; i < 21; ++i) means.row(i) = stored.middleRows(i, 5).colwise().mean();
  const auto share = [](const Eigen::VectorXd& values) {
    return values[0] * values[0] / values.squaredNorm();
  };
  EXPECT_NEAR(found.base.pc1.value, share(testing::uncentred_svd(moved).values), 1e-6);
  EXPECT_NEAR(found.centred.pc1.value, share(testing::reference_svd(stored).values), 1e-6);
  EXPECT_NEAR(found.windows.pc1.value, share(testing::reference_svd(means).values), 1e-6);
  const Matrix steps = stored.bottomRows(24) - stored.topRows(24);
  EXPECT_NEAR(found.straightness.value, moved.row(24).squaredNorm() / steps.squaredNorm(), 1e-9);
}

/// Every pattern of signs of eight increments is a 1/256th of all: an exact p-value.
TEST(Trajectory, DrawsAllSignsAlike) {
  std::mt19937_64 random(9);
  const Matrix steps = increments_of({.steps = 8, .dimensions = 3, .rho = 1.5}, random);
  const Matrix gram = steps * steps.transpose();
  const auto squared = [&](int pattern) {
    Eigen::VectorXd signs(8);
    for (int i = 0; i < 8; ++i) signs[i] = (pattern >> i) % 2 == 0 ? 1 : -1;
    return signs.dot(gram * signs);
  };
  double above = 0;
  for (int pattern = 0; pattern < 256; ++pattern)
    above += squared(pattern) >= squared(0) * (1 - 1e-9) ? 1.0 / 256 : 0;
  ASSERT_LT(above, 0.4);
  const WalkNull null{.increments = {.count = 19999}, .blocks = {.count = 999, .block = 8}};
  const auto found = straightness_of(gram, null).walk;
  EXPECT_NEAR(found.p_value, 2 * above, 0.015);
  EXPECT_EQ(found.p_blocks, 1);  // one block's sign changes nothing
}

TEST(Trajectory, MeasuresEachTensorInOnePass) {
  const auto layout = six_layers();
  const Matrix rows = layered_snapshots(9, 1);
  const auto report = measure_trajectory(LaidOutSource(rows, layout), {.seed = 3, .threads = 2});
  ASSERT_EQ(report.tensors.size(), layout.entries.size());
  std::vector<double> p_values, adjusted;
  for (std::size_t i = 0; i < report.tensors.size(); ++i) {
    const auto& tensor = report.tensors[i];
    const auto& entry = layout.entries[i];
    EXPECT_EQ(tensor.name, entry.name);
    EXPECT_EQ(tensor.weights, entry.size);
    const Matrix part = rows.middleCols(entry.file_offset, entry.size);
    if ((part.rowwise() - part.row(0)).isZero(0)) {
      EXPECT_EQ(tensor.verdict, Verdict::still);
      continue;
    }
    EXPECT_LE(tensor.directions.effective_dimension, static_cast<double>(entry.size));
    // 200 signs for each of the five tensors that move.
    const auto signs = measure_trajectory(*source_of(part), {.flips = 1000, .seed = 3}).whole;
    EXPECT_NEAR(tensor.straightness.p_value, signs.straightness.p_value, 1e-12);
    const auto alone = measure_trajectory(*source_of(part), {.flips = 999, .seed = 3}).whole;
    EXPECT_NEAR(tensor.straightness.value, alone.straightness.value, 1e-9);
    EXPECT_NEAR(tensor.centred.pc1.p_value, alone.centred.pc1.p_value, 1e-12);
    p_values.push_back(tensor.straightness.p_value);
    adjusted.push_back(tensor.p_adjusted);
  }
  EXPECT_EQ(p_values.size(), 5U);
  EXPECT_EQ(adjusted, adjusted_by_holm(p_values));
  EXPECT_EQ(to_json(report),
            to_json(measure_trajectory(LaidOutSource(rows, layout), {.seed = 3, .threads = 1})));
}

/// The counts were recorded before the number of flips followed the tensors: a seed gives what it
/// gave.
TEST(Trajectory, CountsTheRecordedDraws) {
  const auto report = measure_trajectory(LaidOutSource(layered_snapshots(25, 4), six_layers()),
                                         {.flips = 199, .seed = 3, .threads = 2});
  std::vector<Trajectory> all{report.whole};
  all.insert(all.end(), report.tensors.begin(), report.tensors.end());
  std::vector<std::vector<double>> counts;  // of the draws and the measured value together
  for (const auto& one : all) {
    if (one.verdict == Verdict::still) continue;
    const double draws = counts.empty() ? 200 : 1001;  // 200 a tensor that moves
    counts.push_back({draws * one.straightness.p_value,
                      draws * one.straightness.p_blocks,
                      draws * one.p_momentum,
                      200 * one.base.pc1.p_value,
                      200 * one.centred.pc1.p_blocks,
                      200 * one.windows.r2.p_value});
  }
  const std::vector<std::vector<double>> recorded{{2, 28, 200, 156, 99, 184},
                                                  {2, 18, 1001, 155, 99, 185},
                                                  {262, 766, 1001, 200, 200, 48},
                                                  {2, 78, 1001, 156, 99, 184},
                                                  {570, 162, 1001, 105, 132, 186},
                                                  {2, 106, 1001, 153, 100, 186}};
  ASSERT_EQ(counts.size(), recorded.size());
  for (std::size_t i = 0; i < counts.size(); ++i)
    EXPECT_THAT(counts[i], ::testing::Pointwise(::testing::DoubleNear(1e-9), recorded[i]));
}

/// T equal layers of width columns, whose increments drift by S of about 5 after 39 steps.
TrajectoryReport drifting_layers(std::int64_t count,
                                 std::int64_t steps,
                                 TrajectoryOptions options) {
  constexpr std::int64_t width = 20;
  std::vector<std::pair<std::string, std::int64_t>> layers;
  Matrix all(steps, count * width);
  std::mt19937_64 random(12);
  const auto rho = 4.0 * static_cast<double>(steps) / static_cast<double>(steps - 5);
  for (std::int64_t i = 0; i < count; ++i) {
    layers.emplace_back("layer" + std::to_string(i), width);
    all.middleCols(i * width, width) =
        increments_of({.steps = steps, .dimensions = width, .rho = rho}, random);
  }
  options.threads = 2;
  return measure_trajectory(LaidOutSource(snapshots_of(all), testing::layout_of(layers)), options);
}

std::int64_t count_of(const TrajectoryReport& report, Verdict verdict) {
  return std::ranges::count(report.tensors, verdict, &Trajectory::verdict);
}

/// With 40 T signs Holm's least p-value was 2 T / (40 T) = 0.05, so that nothing was rejected.
TEST(Trajectory, FindsADriftWhateverTheNumberOfTensors) {
  for (const std::int64_t count : {24, 25, 60}) {
    const auto report = drifting_layers(count, 39, {});
    EXPECT_GT(report.tensor_flips, 40 * count - 1);
    EXPECT_GT(count_of(report, Verdict::drift), 3 * count / 4) << count;
    EXPECT_TRUE(limits_of(report).empty());
  }
}

TEST(Trajectory, SaysWhichTestCannotReject) {
  using ::testing::ElementsAre;
  using ::testing::HasSubstr;
  for (const std::int64_t flips : {19, 39}) {
    const auto report = drifting_layers(1, 39, {.flips = flips});
    EXPECT_EQ(report.whole.verdict, Verdict::too_few);
    EXPECT_EQ(report.tensors[0].verdict, Verdict::drift);  // 200 flips of its own
    EXPECT_THAT(
        limits_of(report),
        ElementsAre(HasSubstr("all weights cannot be tested: the test needs at least 40 flips"),
                    HasSubstr("cannot be drift: the test needs at least 40 flips, received")));
  }
  EXPECT_TRUE(limits_of(drifting_layers(1, 39, {.flips = 40})).empty());

  // 2^(2 - N): of seven increments 0.03, of six 0.06; blocks of two need as many.
  const auto of_snapshots = [](std::int64_t n, std::int64_t block = 0) {
    return drifting_layers(1, n - 1, {.block = block});
  };
  const auto six = of_snapshots(7);
  EXPECT_EQ(six.whole.verdict, Verdict::too_few);
  EXPECT_THAT(limits_of(six)[0], HasSubstr("needs at least 7 non-zero increments (from 8 snap"));
  const auto twelve = of_snapshots(13);
  EXPECT_EQ(twelve.whole.least_p, 2 / 1000.0);
  EXPECT_EQ(twelve.whole.least_p_blocks, 1 / 16.0);
  EXPECT_THAT(limits_of(twelve),
              ElementsAre(HasSubstr(
                  "blocks of 2 increments the test needs 14 snapshots, received 13; a smaller")));
  EXPECT_TRUE(limits_of(of_snapshots(14)).empty());
  EXPECT_TRUE(limits_of(of_snapshots(8, 1)).empty());
  EXPECT_EQ(limits_of(of_snapshots(30, 6)).size(), 1U);  // 5 blocks
  EXPECT_THAT(to_json(twelve), HasSubstr("\"limits\":[\"the test of blocks"));

  // The least p-value of 40 tensors is 40 * 2^(2 - N).
  const auto forty = drifting_layers(40, 11, {});
  EXPECT_EQ(count_of(forty, Verdict::random_walk) + count_of(forty, Verdict::drift), 0);
  EXPECT_GT(count_of(forty, Verdict::too_few), 20);
  EXPECT_THAT(
      limits_of(forty)[0],
      HasSubstr("40 of 40 tensors cannot be tested: the test needs at least 12 non-zero incr"));
}

// Only the end of the path moves, so that enough snapshots are too few blocks.
TEST(Trajectory, NamesTheBlocksThatMove) {
  std::mt19937_64 random(21);
  Matrix steps = Matrix::Zero(39, 30);
  steps.bottomRows(3) = increments_of({.steps = 3, .dimensions = 30}, random);
  const auto report = measure_trajectory(*source_of(snapshots_of(steps)), {.threads = 1});
  EXPECT_EQ(report.whole.moving_blocks, 1);
  EXPECT_THAT(limits_of(report).back(),
              ::testing::HasSubstr("with blocks of 4 increments the test needs 7 blocks with "
                                   "non-zero increments, received 1; a smaller --block"));
}

// Signs do not change the length of a sum of orthogonal increments, so no test by signs can reject.
TEST(Trajectory, OrthogonalIncrementsAreUnknown) {
  Matrix steps = Matrix::Zero(20, 50);
  for (Eigen::Index i = 0; i < steps.rows(); ++i)
    steps(i, 2 * i) = 0.25 * static_cast<double>(i + 1);
  const auto report = measure_trajectory(*source_of(snapshots_of(steps)), {.threads = 1});
  EXPECT_EQ(report.whole.straightness.p_value, 1);
  EXPECT_EQ(report.whole.verdict, Verdict::all_alike);
  EXPECT_THAT(limits_of(report),
              ::testing::ElementsAre(
                  ::testing::HasSubstr("all weights cannot be tested: the increments are "
                                       "orthogonal, so all signs give the same straightness")));
}

/// A path straighter than both walks with too few blocks is no "no"; one in ten is `correlated` by
/// chance.
TEST(Trajectory, DoesNotDenyADriftForItsBlocks) {
  std::mt19937_64 random(13);
  int unknown = 0;
  for (int walk = 0; walk < 10; ++walk) {
    const Matrix steps =
        Matrix::Constant(12, 30, 1) + increments_of({.steps = 12, .dimensions = 30}, random);
    const auto found = measure_trajectory(*source_of(snapshots_of(steps)), {.threads = 1}).whole;
    EXPECT_LT(found.p_momentum, 0.05);
    EXPECT_NE(found.verdict, Verdict::unclear);
    unknown += found.verdict == Verdict::too_few_blocks ? 1 : 0;
  }
  EXPECT_GE(unknown, 6);
}

TEST(Trajectory, AdjustsAsHolmDoes) {
  EXPECT_THAT(adjusted_by_holm({0.01, 0.04, 0.03, 0.005}),
              ::testing::Pointwise(::testing::DoubleEq(), {0.03, 0.06, 0.06, 0.02}));
}

/// Without a look at `stop` it would take minutes.
TEST(Trajectory, EndsWhereItIsStopped) {
  const std::atomic<bool> stop = true;
  const SignFlips flips{.count = std::int64_t{1} << 40, .stop = &stop};
  const Eigen::MatrixXd gram = Eigen::MatrixXd::Identity(3, 3);
  EXPECT_THROW(straightness_of_all({&gram, 1}, std::array{0.0}, {flips, flips}, 1),
               std::runtime_error);
  EXPECT_THROW(line_shape(gram, view_centred(3), {flips, flips}), std::runtime_error);
  EXPECT_THROW(directions(gram, 1, {.count = most_flips, .stop = &stop}), std::runtime_error);
  EXPECT_THROW(measure_trajectory(*source_of(random_matrix(6, 90, 3)), {.stop = &stop}),
               std::runtime_error);
}

TEST(Trajectory, RefusesWhatIsNone) {
  const auto snapshots = random_matrix(6, 90, 3);
  for (const TrajectoryOptions& options : {TrajectoryOptions{.flips = 18},
                                           TrajectoryOptions{.flips = most_flips + 1},
                                           TrajectoryOptions{.block = 6},
                                           TrajectoryOptions{.window = 5},
                                           TrajectoryOptions{.window = 1}})
    EXPECT_THROW(measure_trajectory(*source_of(snapshots), options), std::invalid_argument);
  EXPECT_THROW(measure_trajectory(*source_of(random_matrix(3, 90, 3))), std::invalid_argument);
  EXPECT_THROW(measure_trajectory(*source_of(Matrix::Constant(6, 90, 0.1))), std::invalid_argument);
  Matrix broken = snapshots;
  broken(2, 7) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(measure_trajectory(*source_of(broken)), std::invalid_argument);
}

/// A snapshot that was saved twice is no step: a walk with momentum has no other verdict for it.
TEST(Trajectory, PassesOverStepsOfZero) {
  std::mt19937_64 random(14);
  const Matrix steps = increments_of({.steps = 39, .dimensions = 50, .phi = 0.9}, random);
  Matrix repeated = Matrix::Zero(3 * steps.rows(), steps.cols());
  for (Eigen::Index i = 0; i < steps.rows(); ++i) repeated.row(3 * i) = steps.row(i);
  const auto once = measure_trajectory(*source_of(snapshots_of(steps)), {.threads = 1}).whole;
  const auto thrice = measure_trajectory(*source_of(snapshots_of(repeated)), {.threads = 1}).whole;
  EXPECT_EQ(once.verdict, Verdict::correlated);
  EXPECT_EQ(thrice.verdict, Verdict::correlated);
  EXPECT_THAT(thrice.directions.cosines,
              ::testing::Pointwise(::testing::DoubleNear(1e-9), once.directions.cosines));
  EXPECT_EQ(thrice.directions.p_neighbours, once.directions.p_neighbours);
  EXPECT_NEAR(thrice.directions.effective_dimension, once.directions.effective_dimension, 1e-6);
}

// Cosines of no pairs, and a line through one coefficient, are 0 / 0 as well.
TEST(Trajectory, HasNoStatisticsOfOneStep) {
  for (const Eigen::Index at : {0, 7}) {
    Matrix steps = Matrix::Zero(20, 50);
    steps.row(at).setRandom();
    const auto found = measure_trajectory(*source_of(snapshots_of(steps)), {.threads = 1}).whole;
    EXPECT_TRUE(std::isnan(found.directions.effective_dimension));
    EXPECT_EQ(found.directions.cosines.size(), 10U);
    for (const double cosine : found.directions.cosines) EXPECT_TRUE(std::isnan(cosine));
    EXPECT_TRUE(std::isnan(found.directions.p_neighbours));
    EXPECT_EQ(std::isnan(found.base.r2.value), at == 0);  // all others stand at one place
    EXPECT_EQ(std::isnan(found.base.r2.p_value), at == 0);
    EXPECT_NEAR(found.base.pc1.value, 1, 1e-12);
    EXPECT_EQ(found.verdict, Verdict::too_few);
  }
}

// All orders and signs of equal steps are alike, and signs that bring the means of windows together
// have no share: rounding decides nothing.
TEST(Trajectory, CountsEqualDrawsAsEqual) {
  for (const std::int64_t steps : {4, 6, 30}) {
    const Matrix line = Matrix::Constant(steps, 50, 0.1);
    const auto found =
        measure_trajectory(*source_of(snapshots_of(line)), {.window = 2, .threads = 1}).whole;
    EXPECT_EQ(found.directions.p_neighbours, 1) << steps;
    EXPECT_EQ(found.windows.pc1.p_value, 1) << steps;
    EXPECT_EQ(found.windows.pc1.p_blocks, 1) << steps;
  }
}

// Means of windows as long as a cycle are equal: their shares are 0 / 0, not numbers of rounding.
TEST(Trajectory, HasNoShareOfAVarianceOfNothing) {
  for (const double offset : {0.0, 1000.0}) {
    for (const auto& [period, window] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {2, 2}, {2, 4}, {3, 3}, {3, 6}, {4, 4}, {5, 10}, {8, 8}}) {
      Matrix cycle = Matrix::Random(period, 50);
      Matrix points(40, 50);
      for (Eigen::Index i = 0; i < points.rows(); ++i)
        points.row(i) = (cycle.row(i % period).array() + offset).cast<float>().cast<double>();
      const auto report = measure_trajectory(*source_of(points), {.window = window, .threads = 1});
      EXPECT_TRUE(std::isnan(report.whole.windows.pc1.value)) << period;
      EXPECT_TRUE(std::isnan(report.whole.windows.r2.p_value)) << period;
      EXPECT_GT(report.whole.centred.pc1.value, 0) << period;
      EXPECT_LE(report.whole.centred.pc1.value, 1) << period;
    }
  }
}

}  // namespace
}  // namespace dimred::pca
