#include "stage2/network_space.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <cmath>

#include "method/make_method.h"
#include "method/method.h"
#include "tests/tools/disturbed_net.h"
#include "tests/tools/gloo_ranks.h"
#include "tests/tools/steep_network.h"
#include "tests/tools/toy_setup.h"

namespace dimred::stage2 {
namespace {

using method::Buffers;
using method::PenaltyOptions;

/// A toy network's first batch; the subspace is empty, so that project() gives |g|^2 and the loss.
struct Toy {
  explicit Toy(engine::Setup made, const PenaltyOptions& penalty = {})
      : setup(std::move(made)),
        batch(engine::first_batch(setup)),
        now{.tensors = engine::to_minibatch(setup.model, batch),
            .global_count = batch.global_count,
            .key = {.epoch = 1, .step = 2}},
        space(setup, no_subspace(setup), penalty, false) {
    space.set_batch(now);
  }

  static Subspace no_subspace(const engine::Setup& setup) {
    Subspace none;
    none.own_columns =
        distributed::own_columns(setup.model.flat.gradient, setup.model.columns).numel();
    return none;
  }

  method::Projection gradient(Buffers buffers = Buffers::move) {
    space.gradient(buffers);
    return space.project();
  }
  /// w <- w + t g
  void move(double t) {
    const Eigen::VectorXd nothing;
    space.set_line(
        {.direction = nothing, .projected = nothing, .alpha = 1, .moves_momentum = true});
    space.move_to(-t);
  }

  engine::Setup setup;
  decltype(engine::first_batch(std::declval<engine::Setup&>())) batch;
  engine::DeviceBatch now;
  NetworkSpace space;
};

/// A trial is the gradient's own function: at t = 0 it gives the step's loss bit for bit.
TEST(NetworkSpace, TrialsSeeTheSamePenaltiesAsTheGradient) {
  for (const bool sharp : {false, true}) {
    Toy toy(engine::toy_setup(models::Precision::float32),
            {.weight_decay = 1e-2, .sam_radius = sharp ? 0.05 : 0});
    const auto before = toy.setup.model.flat.buffers.clone();
    const auto first = toy.gradient();
    const auto passes = toy.space.take_passes();
    EXPECT_EQ(passes.forward, sharp ? 2 : 1);
    EXPECT_EQ(passes.backward, sharp ? 2 : 1);
    EXPECT_EQ(toy.space.loss(), first.loss);
    EXPECT_GT(first.loss, toy.space.result().mean_loss());
    EXPECT_FALSE(
        torch::equal(toy.setup.model.flat.buffers, before));  // the gradient moved them, once
    const auto moved = toy.setup.model.flat.buffers.clone();
    const auto again = toy.gradient(Buffers::restore);
    EXPECT_EQ(again.gradient_square, first.gradient_square);
    EXPECT_EQ(again.loss, first.loss);
    EXPECT_TRUE(torch::equal(toy.setup.model.flat.buffers, moved));

    // Along the gradient: central differences in float32 losses.
    const double norm = std::sqrt(first.gradient_square);
    const double h = 1e-3;
    toy.move(h / norm);
    const double up = toy.space.loss();
    toy.space.move_to(h / norm);
    const double down = toy.space.loss();
    EXPECT_NEAR((up - down) / (2 * h), norm, 5e-3 * norm) << sharp;
  }
}

TEST(NetworkSpace, DecayOfAllIsOfBiasesAndBatchNormToo) {
  Toy all(engine::toy_setup(models::Precision::float32),
          {.weight_decay = 1e-2, .weight_decay_all = true});
  Toy weights(engine::toy_setup(models::Precision::float32), {.weight_decay = 1e-2});
  const double square = all.setup.model.flat.weights.square().sum().item<double>();
  const double loss = all.gradient().loss - all.space.result().mean_loss();
  EXPECT_NEAR(loss, 1e-2 * square / 2, 1e-6 * square);
  EXPECT_LT(weights.gradient().loss - weights.space.result().mean_loss(), loss);
  EXPECT_EQ(all.space.loss(), all.gradient(Buffers::restore).loss);
}

/// SAM's step: a pass at w, one at w + shift, and trials there.
TEST(NetworkSpace, APassThatThrowsLeavesWeightsAndStatisticsAsTheyWere) {
  for (const int pass : {1, 2, 3}) {
    const auto network = std::make_shared<engine::DisturbedNet>();
    network->throws = {pass};
    Toy toy(engine::toy_setup(models::Precision::float32, network), {.sam_radius = 0.05});
    const auto weights = toy.setup.model.flat.weights.detach().clone();
    const auto buffers = toy.setup.model.flat.buffers.clone();
    const auto method = method::make_method({.residual = {.alpha = 0.1}}, {});
    EXPECT_THROW(method->step(toy.space, 0), std::runtime_error);
    EXPECT_TRUE(torch::equal(toy.setup.model.flat.weights, weights)) << pass;
    EXPECT_TRUE(torch::equal(toy.setup.model.flat.buffers, buffers)) << pass;
  }
}

/// SAM's pass at w and the gradient's pass share one copy of them, which the step keeps anyway.
TEST(NetworkSpace, CopiesRunningStatisticsOnceAStep) {
  for (const double radius : {0.0, 0.05}) {
    Toy toy(engine::toy_setup(models::Precision::float32), {.sam_radius = radius});
    static const void* buffers;
    static int copies;
    buffers = toy.setup.model.flat.buffers.data_ptr();
    copies = 0;
    const auto count = [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
      const auto inputs = call.inputs();
      if (std::string_view(call.name()) == "aten::clone" &&
          inputs[0].toTensor().data_ptr() == buffers)
        ++copies;
      return nullptr;
    };
    const auto handle = at::addThreadLocalCallback(
        at::RecordFunctionCallback(count).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
    toy.gradient();
    EXPECT_EQ(std::exchange(copies, 0), 1) << radius;
    toy.space.loss();  // a trial begins with those that the gradient's pass has moved
    EXPECT_EQ(copies, 1) << radius;
    at::removeCallback(handle);
  }
}

/// Weight decay and SAM's ascent see the gradient as it is, not as it was scaled.
TEST(NetworkSpaceWithLossScale, APowerOfTwoChangesNoBit) {
  for (const auto precision : {models::Precision::float32, models::Precision::bfloat16}) {
    Toy toy(engine::toy_setup(precision), {.weight_decay = 1e-2, .sam_radius = 0.05});
    const auto plain = toy.gradient();
    toy.setup.model.loss_scale = engine::LossScale({.loss_scale = 1024});
    const auto scaled = toy.gradient();
    EXPECT_EQ(scaled.loss, plain.loss);
    EXPECT_EQ(scaled.gradient_square, plain.gradient_square);
    EXPECT_EQ(toy.space.loss(), plain.loss);
    EXPECT_EQ(toy.gradient(Buffers::restore).gradient_square, plain.gradient_square);
  }
}

/// Without a direction to ascend in, the step is one that overflows: the loss is that at w.
TEST(NetworkSpaceWithLossScale, AnOverflowInTheAscentLeavesTheStepOut) {
  const auto setup = [] {
    return engine::toy_setup(models::Precision::float32, engine::steep_network(std::ldexp(1, 100)));
  };
  Toy plain(setup()), steep(setup(), {.sam_radius = 0.05});
  steep.setup.model.loss_scale = engine::LossScale({.loss_scale = std::ldexp(1, 60)});
  const auto before = steep.setup.model.flat.weights.detach().clone();
  const auto method = method::make_method({.kind = method::MethodKind::sgd}, {});
  const auto report = method->step(steep.space, 0);
  EXPECT_EQ(report.loss, plain.gradient().loss);
  EXPECT_TRUE(report.not_finite);
  EXPECT_TRUE(torch::equal(steep.setup.model.flat.weights, before));
}

/// Rank 1's part of the batch alone overflows: both ranks leave the step out.
TEST(NetworkSpaceWithLossScale, AnOverflowOfOneRankLeavesTheStepOutOnAll) {
  std::vector<int> left_out(2, -1);
  on_gloo_ranks(2, [&](distributed::TensorCommunicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    auto setup = engine::toy_setup(models::Precision::float32,
                                   engine::steep_network(rank == 1 ? std::ldexp(1, 100) : 1));
    setup.communicator = {&communicator, [](auto*) {}};
    setup.model.columns = distributed::columns_of(setup.model.flat.layout, communicator);
    setup.model.loss_scale = engine::LossScale({.loss_scale = std::ldexp(1, 60)});
    Toy steep(std::move(setup));
    const auto before = steep.setup.model.flat.weights.clone();
    const auto method = method::make_method({.kind = method::MethodKind::sgd}, {});
    const auto report = method->step(steep.space, 0);
    EXPECT_TRUE(std::isfinite(report.loss));
    left_out[rank] = report.not_finite ? 1 : 0;
    EXPECT_TRUE(torch::equal(steep.setup.model.flat.weights, before));
    EXPECT_EQ(steep.space.momentum().abs().max().item<float>(), 0);
  });
  EXPECT_EQ(left_out, (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace dimred::stage2
