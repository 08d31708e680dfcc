#include "engine/evaluate.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "engine/input/batches.h"
#include "models/network.h"
#include "support/errors.h"
#include "tests/tools/disturbed_net.h"
#include "tests/tools/dropout_net.h"
#include "tests/tools/toy_setup.h"

namespace dimred::engine {
namespace {

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

TEST(Evaluate, ARequestToStopEndsItBetweenTwoBatches) {
  auto setup = toy_setup(models::Precision::float32);
  int asked = 0;
  setup.stops.agreed = [&asked](Communicator& /*communicator*/) { return ++asked == 2; };
  EXPECT_THROW(evaluate(setup, *setup.data.test), Stopped);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace dimred::engine
