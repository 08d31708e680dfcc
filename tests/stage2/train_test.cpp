#include "stage2/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <set>
#include <sstream>

#include "run/run_folder.h"
#include "run/signals.h"
#include "run/state.h"
#include "tests/tools/disturbed_net.h"
#include "tests/tools/signalling_data.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::stage2 {
namespace {

using engine::DisturbedNet;
using engine::SignallingData;
using run::EpochEnd;

constexpr std::int64_t samples = 96;  // three steps

/// A signal at such a sample of the test set, or of the training set; 0: none.
struct SignalAt {
  std::int64_t test = 0, train = 0;
};

struct Case {
  std::set<int> not_finite;  // passes
  std::int64_t epochs = 2;
  double budget = 0;
  bool recalibrate = false, no_score = false;
  SignalAt signal;
};

/// SGD from the network's own weights.
EpochEnd run_case(const std::filesystem::path& folder, const Case& wanted) {
  const auto network = std::make_shared<DisturbedNet>();
  network->not_finite = wanted.not_finite;
  network->no_score = wanted.no_score;
  auto setup = engine::toy_setup(models::Precision::float32, network);
  setup.stops = run::stops_by_signal();
  setup.data.train = std::make_shared<SignallingData>(samples, wanted.signal.train);
  setup.data.test = std::make_shared<SignallingData>(samples, wanted.signal.test);
  const StartWeights start{
      .weights = {.values = models::to_file(setup.model.flat.layout, setup.model.flat.weights),
                  .buffers = models::to_vector(setup.model.flat.buffers),
                  .counters = models::to_integers(setup.model.flat.counters)},
      .cost = {}};
  TrainOptions options{.label = "sgd", .epochs = wanted.epochs, .budget = wanted.budget};
  options.method.kind = method::MethodKind::sgd;
  options.method.rates.learning_rate = 1e-3;
  options.recalibrate_batchnorm = wanted.recalibrate;
  Console console(/*quiet=*/true);
  const std::string toml = "seed = 1\n";
  const run::RunFolder run_folder(folder, {.toml = toml, .persistent = toml}, *setup.communicator);
  return train(setup, run_folder, {}, start, options, console);
}

std::size_t count_of_part(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// The curve's train_loss of the whole epochs.
std::vector<std::string> train_losses(const std::filesystem::path& folder) {
  std::istringstream lines(text_of_file(folder / "curve.csv"));
  std::vector<std::string> losses;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i <= 11; ++i) std::getline(fields, field, ',');
    losses.push_back(field);
  }
  losses.erase(losses.begin(), losses.begin() + 2);  // header and start
  return losses;
}

TEST(Train, PassesOverABatchWhoseLossIsNotFinite) {
  const TemporaryFolder folder;
  EXPECT_EQ(run_case(folder / "run", {.not_finite = {1, 3}}), EpochEnd::finished);
  EXPECT_EQ(count_of_part(text_of_file(folder / "run/steps.csv"), "not_finite"), 2U);
  EXPECT_EQ(text_of_file(folder / "run/curve.csv").find("nan"), std::string::npos);
  EXPECT_EQ(run::read_run_state(folder / "run").scalars.at("not_finite"), 0);
}

TEST(Train, AnEpochWithoutAFiniteLossHasNoMeanOfIt) {
  const TemporaryFolder folder;
  EXPECT_EQ(run_case(folder / "run", {.not_finite = {0, 1, 2}}), EpochEnd::finished);
  const auto losses = train_losses(folder / "run");
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_EQ(losses[0], "");
  EXPECT_GT(std::stod(losses[1]), 0);
}

TEST(Train, EndsAfterTenBatchesInARowWhoseLossIsNotFinite) {
  const TemporaryFolder folder;
  Case nine{.epochs = 5}, ten{.epochs = 5};
  for (int pass = 2; pass < 11; ++pass) nine.not_finite.insert(pass);
  ten.not_finite = nine.not_finite;
  ten.not_finite.insert(11);
  EXPECT_EQ(run_case(folder / "nine", nine), EpochEnd::finished);
  EXPECT_THAT(thrown<std::runtime_error>([&] { run_case(folder / "ten", ten); }),
              testing::HasSubstr("the loss or the gradient of the last 10 steps is not finite"));
}

TEST(Train, EndsWhereATestLossIsNotFinite) {
  const TemporaryFolder folder;
  EXPECT_THAT(thrown<std::runtime_error>([&] { run_case(folder / "run", {.no_score = true}); }),
              testing::HasSubstr("[stage2] the test loss is not finite at step 0"));
}

class StoppedOutsideOfSteps : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    All,
    StoppedOutsideOfSteps,
    testing::Values(Case{.signal = {.test = 1}},            // the start's row
                    Case{.signal = {.test = samples + 1}},  // after an epoch
                    Case{.budget = 0.5, .signal = {.test = samples + 1}},
                    // the recalibration behind the last step, and its row
                    Case{.recalibrate = true, .signal = {.train = 2 * samples + 1}},
                    Case{.recalibrate = true, .signal = {.test = 3 * samples + 1}}));

TEST_P(StoppedOutsideOfSteps, GoesOnToTheSameEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a signal stops all of a process
  torch::set_num_threads(1);  // in the process that stops, too, whatever earlier tests left here
  const TemporaryFolder folder;
  const auto stopped = std::filesystem::path(engine::shared_path((folder / "stopped").string()));
  const auto stop = [&] {
    run::catch_stop_signals();
    return run_case(stopped, GetParam()) == EpochEnd::stopped ? run::stop_exit_code() : 0;
  };
  EXPECT_EXIT(std::_Exit(stop()), testing::ExitedWithCode(143), "");
  const auto rows = count_of_part(text_of_file(stopped / "curve.csv"), "\n");
  auto whole = GetParam();
  whole.signal = {};
  EXPECT_EQ(run_case(stopped, whole), EpochEnd::finished);
  EXPECT_EQ(run_case(folder / "whole", whole), EpochEnd::finished);
  const auto curve = text_of_file(stopped / "curve.csv");
  EXPECT_LT(rows, count_of_part(curve, "\n"));
  EXPECT_EQ(engine::without_times(curve),
            engine::without_times(text_of_file(folder / "whole/curve.csv")));
  const auto one = run::read_run_state(stopped);
  const auto other = run::read_run_state(folder / "whole");
  EXPECT_EQ(one.vectors, other.vectors);
  EXPECT_EQ(one.scalars.at("step"), other.scalars.at("step"));
}

}  // namespace
}  // namespace dimred::stage2
