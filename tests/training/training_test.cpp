#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "checkpoints/run_config.h"
#include "support/errors.h"
#include "tests/tools/disturbed_net.h"
#include "tests/tools/dropout_net.h"
#include "tests/tools/toy_setup.h"
#include "training/curve.h"
#include "training/evaluate.h"
#include "training/input/batches.h"
#include "training/passes/gradient.h"
#include "training/run_folder.h"

namespace dimred::training {
namespace {

using checkpoints::read_config;

class Precisions : public testing::TestWithParam<models::Precision> {
 protected:
  void SetUp() override {
    if (GetParam() == models::Precision::bfloat16 && !models::has_native_bfloat16(torch::kCPU)) {
      GTEST_SKIP() << "no native bfloat16 on this processor";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Both,
                         Precisions,
                         testing::Values(models::Precision::float32, models::Precision::bfloat16));

TEST_P(Precisions, TrialAtZeroEqualsTheStepsLossBitForBit) {
  for (const bool residual_network : {false, true}) {
    auto setup = toy_setup(
        GetParam(), residual_network ? models::make_network("resnet20", {1, 28, 28}, 10) : nullptr);
    auto batch = first_batch(setup);
    const auto minibatch = to_minibatch(setup.model, batch);
    const ForwardKey key{.epoch = 2, .step = 5};
    const auto step = loss_and_gradient(setup, minibatch, batch.global_count, key);
    EXPECT_EQ(loss_only(setup, minibatch, key).loss_sum, step.loss_sum);
    EXPECT_EQ(loss_only(setup, minibatch, key).loss_sum, step.loss_sum);  // and again
  }
}

TEST_P(Precisions, TrialElsewhereSeesTheNewWeights) {
  auto setup = toy_setup(GetParam());
  auto batch = first_batch(setup);
  const auto minibatch = to_minibatch(setup.model, batch);
  const auto step = loss_and_gradient(setup, minibatch, batch.global_count, {});
  setup.model.flat.weights.detach().sub_(setup.model.flat.gradient, 0.01);
  EXPECT_NE(loss_only(setup, minibatch, {}).loss_sum,
            step.loss_sum);  // a stale autocast cache would agree
}

TEST(Gradient, DropoutMasksBelongToTheStep) {
  auto setup = toy_setup(models::Precision::float32);
  auto batch = first_batch(setup);
  const auto minibatch = to_minibatch(setup.model, batch);
  const auto one = loss_only(setup, minibatch, {.epoch = 0, .step = 1}).loss_sum;
  EXPECT_NE(loss_only(setup, minibatch, {.epoch = 0, .step = 2}).loss_sum, one);
  EXPECT_EQ(loss_only(setup, minibatch, {.epoch = 0, .step = 1}).loss_sum, one);
}

/// f(w + h e) by central differences in float64 sums of float32 forward passes.
TEST(Gradient, IsTheMeanOverTheGlobalBatch) {
  torch::manual_seed(3);  // the network is drawn before toy_setup seeds
  auto setup =
      toy_setup(models::Precision::float32, models::make_network("convnet", {1, 28, 28}, 10));
  auto batch = first_batch(setup);
  const auto minibatch = to_minibatch(setup.model, batch);
  loss_and_gradient(setup, minibatch, batch.global_count, {});
  const auto gradient = setup.model.flat.gradient.clone();
  const auto direction = gradient / gradient.norm();
  const double h = 1e-3;  // h^2 truncation below 1e-4, rounding 1e-7 * loss / h = 2e-4
  auto& weights = setup.model.flat.weights;
  const auto start = weights.detach().clone();
  weights.detach().add_(direction, h);
  const double up = loss_only(setup, minibatch, {}).mean_loss();
  weights.detach().copy_(start).sub_(direction, h);
  const double down = loss_only(setup, minibatch, {}).mean_loss();
  EXPECT_NEAR((up - down) / (2 * h),
              gradient.norm().item<double>(),
              2e-3 * gradient.norm().item<double>());  // h^2 and eps / h
}

TEST(BatchNorm, RecalibrationEqualsTheCumulativeMeanOfBatchStatistics) {
  auto setup = toy_setup(models::Precision::float32);
  auto* network = new DropoutNet();  // owned by the objective below
  setup = toy_setup(models::Precision::float32, std::shared_ptr<models::Network>(network));
  setup.model.flat.buffers.fill_(7);
  recalibrate_batchnorm(setup);
  torch::Tensor sum = torch::zeros({8});
  data::Loader loader(*setup.data.train,
                      {.seed = setup.seed, .size = 96},
                      setup.data.preprocessing,
                      loader_options(setup),
                      0);
  int batches = 0;
  while (auto batch = loader.next()) {
    const torch::NoGradGuard no_grad;
    sum += network->conv(to_minibatch(setup.model, *batch).images).mean({0, 2, 3});
    ++batches;
  }
  EXPECT_EQ(batches, 3);
  EXPECT_TRUE(torch::allclose(network->norm->running_mean, sum / 3, 1e-5, 1e-6));
  EXPECT_EQ(network->norm->num_batches_tracked.item<std::int64_t>(), 3);
  EXPECT_EQ(network->norm->options.momentum(), 0.1);
}

/// Also in a run that is taken up between its last step and the recalibration.
TEST(BatchNorm, RecalibrationDrawsTheSameMasksWhateverCameBefore) {
  auto setup = toy_setup(models::Precision::float32, std::make_shared<DisturbedNet>());
  const auto recalibrated = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    recalibrate_batchnorm(setup);
    return setup.model.flat.buffers.clone();
  };
  EXPECT_TRUE(torch::equal(recalibrated(1), recalibrated(2)));
}

TEST(BatchNorm, ARecalibrationThatThrowsLeavesTheMomentumAsItWas) {
  const auto network = std::make_shared<DisturbedNet>();
  network->throws = {1};
  auto setup = toy_setup(models::Precision::float32, network);
  EXPECT_THROW(recalibrate_batchnorm(setup), std::runtime_error);
  EXPECT_EQ(network->inner->norm->options.momentum(), 0.1);
}

TEST(Evaluate, CountsEverySampleOnce) {
  auto setup =
      toy_setup(models::Precision::float32, models::make_network("convnet", {1, 28, 28}, 10));
  const auto score = evaluate(setup, *setup.data.test);
  EXPECT_EQ(score.samples, 96);
  auto all = data::Loader(*setup.data.test,
                          {.size = 96, .shuffled = false},
                          setup.data.preprocessing,
                          {.batch_size = 96},
                          0)
                 .next();
  const auto whole =
      setup.model.objective->evaluate(to_minibatch(setup.model, *all), models::Mode::evaluate);
  EXPECT_NEAR(score.loss, whole.loss_sum.item<double>() / 96, 1e-6);
  EXPECT_EQ(score.accuracy, whole.correct_count.item<double>() / 96);
}

/// BatchNorm's epsilon of 1e-5 would hide the second.
TEST(Evaluate, RefusesAVarianceBelowZero) {
  for (const float variance : {-0.9F, -1e-6F}) {
    const auto network = std::make_shared<DropoutNet>();
    auto setup = toy_setup(models::Precision::float32, network);
    network->norm->running_var[0] = variance;
    const auto text = failure_of([&] { evaluate(setup, *setup.data.test); });
    EXPECT_NE(
        text.find("needs running variances >= 0, received a variance below 0 in norm.running_var"),
        std::string::npos)
        << text;
    network->norm->running_var[0] = 0;
    EXPECT_NO_THROW(evaluate(setup, *setup.data.test));
  }
}

TEST(Evaluate, AResultNeedsAFiniteLoss) {
  const auto network = std::make_shared<DropoutNet>();
  auto setup = toy_setup(models::Precision::float32, network);
  EXPECT_EQ(finite_score(setup, *setup.data.test, "test").loss,
            evaluate(setup, *setup.data.test).loss);
  setup.model.flat.weights[0] = std::numeric_limits<float>::infinity();
  const auto text = failure_of([&] { finite_score(setup, *setup.data.test, "test"); });
  EXPECT_NE(text.find("needs weights with a finite loss, received the loss NaN on the test set"),
            std::string::npos)
      << text;
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / formatted("dimred_training_{}", ::getpid());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void start(const std::string& config) const {
    const RunFolder folder(folder_, {.toml = config, .may_change = {"epochs"}}, *ranks_);
  }
  std::filesystem::path folder_;
  std::unique_ptr<distributed::TensorCommunicator> ranks_ = distributed::single_rank();
};

/// libtorch.so brings a std::filesystem of its own that crashes here; see cmake/DimredTorch.cmake.
TEST_F(Files, FoldersAreRemovedBesideLibTorch) {
  std::filesystem::create_directories(folder_ / "a" / "b");
  EXPECT_EQ(std::filesystem::remove_all(folder_), 3U);
}

TEST_F(Files, CurveIsCutToTheLengthOfTheState) {
  std::filesystem::create_directories(folder_);
  const auto path = folder_ / "curve.csv";
  FilePrefix prefix;
  std::string first_two;
  {
    CurveWriter curve(path, {});
    curve.append({.stage = "stage1", .method = "sgd", .epoch = 1, .test_accuracy = 0.5});
    prefix = curve.prefix();
    first_two = std::string(std::istreambuf_iterator<char>(std::ifstream(path).rdbuf()), {});
    curve.append({.stage = "stage1", .method = "sgd", .epoch = 2});
  }
  CurveWriter again(path, prefix);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(std::ifstream(path).rdbuf()), {}),
            first_two);
  EXPECT_THROW(CurveWriter(path, {.length = prefix.length + 1000}), std::runtime_error);
  std::fstream(path).seekp(prefix.length - 3).put('#');
  EXPECT_THROW(CurveWriter(path, prefix), std::runtime_error);  // damaged where it counts
}

TEST_F(Files, RunFolderRefusesAnotherConfigurationByName) {
  start("seed = 1\nepochs = 2\nmodel = \"convnet\"\n");
  start("seed = 1\nepochs = 5\nmodel = \"convnet\"\n");  // longer: taken up again
  try {
    start("seed = 1\nepochs = 5\nmodel = \"resnet20\"\n");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("model = \"convnet\", received \"resnet20\""),
              std::string::npos)
        << error.what();
  }
}

TEST_F(Files, ARunWithOtherOptionsThanTheseIsRefused) {
  start("seed = 1\n");
  EXPECT_THROW(start("seed = 1\nnoise = 0.0\n"), std::invalid_argument);
  EXPECT_THROW(start(""), std::invalid_argument);
  EXPECT_EQ(read_config(folder_), "seed = 1\n");
}

TEST_F(Files, RunFolderRefusesADamagedConfiguration) {
  start("seed = 1\n");
  EXPECT_EQ(read_config(folder_), "seed = 1\n");
  const auto size = std::filesystem::file_size(folder_ / "config.toml");
  std::fstream(folder_ / "config.toml").seekp(static_cast<std::streamoff>(size) - 2).put('3');
  EXPECT_THROW(read_config(folder_), std::runtime_error);
  EXPECT_THROW(start("seed = 3\n"), std::runtime_error);
}

TEST_F(Files, AFinishedRunThatIsStartedAgainKeepsWhatItHasRead) {
  auto setup =
      toy_setup(models::Precision::float32, models::make_network("convnet", {1, 28, 28}, 10));
  setup.data.report.training.bad_samples = 7;
  const auto finish = [&] {
    const RunFolder folder(folder_, {.toml = "seed = 1\n"}, *ranks_);
    if (!std::filesystem::exists(folder_ / "curve.csv"))
      CurveWriter(folder_ / "curve.csv", {}).append({.stage = "stage1", .method = "sgd"});
    folder.write_manifest(setup, "stage1", "finished", nlohmann::json::object());
    return checkpoints::read_text(folder_ / "manifest.json");
  };
  const auto first = finish();
  setup.data.report = {};
  EXPECT_EQ(finish(), first);
}

TEST_F(Files, RunFolderStartsWhereAKilledStartLeftItsTemporaryFile) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "config.toml.tmp") << "seed";
  start("seed = 1\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "config.toml.tmp"));
}

TEST_F(Files, RunFolderRefusesForeignFiles) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "thesis.txt") << "precious";
  EXPECT_THROW(start("seed = 1\n"), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "config.toml"));
}

}  // namespace
}  // namespace dimred::training
