#include "stage2/method.h"

#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "stage2/average.h"
#include "stage2/batch_loss.h"
#include "tests/tools/toy_setup.h"

namespace dimred::stage2 {
namespace {

/// f(w) = sum_j c_j (w_j - 1)^2 / 2 in six columns; the batch is the same at every step.
struct Quadratic {
  torch::Tensor curvature = torch::tensor({4.0F, 1.0F, 2.0F, 3.0F, 0.5F, 5.0F});
  torch::Tensor weights = torch::zeros({6});
  std::unique_ptr<distributed::Communicator> communicator = distributed::single_rank();
  distributed::Columns columns;

  double loss() const { return (curvature * (weights - 1).square()).sum().item<double>() / 2; }
  torch::Tensor gradient() const { return curvature * (weights - 1); }
  BatchLoss batch() {
    return {.loss = [this] { return loss(); },
            .gradient = gradient(),
            .evaluate = [this] { return loss(); },
            .gradient_here = [this] { return gradient(); }};
  }
  Place place(const Subspace& subspace) {
    return {.subspace = subspace,
            .communicator = *communicator,
            .columns = columns,
            .own_columns = weights};
  }
};

/// Orthonormal rows [k x 6].
torch::Tensor rows(std::int64_t k) {
  const auto generator = at::detail::createCPUGenerator(5);
  return std::get<0>(torch::linalg_qr(torch::randn({6, k}, generator))).t().contiguous();
}

TEST(Sgd, IsPyTorchsWithTheRateThatFalls) {
  Quadratic problem;
  auto method = sgd(problem.place({}), {.learning_rate = 0.05, .momentum = 0.9}, Decay::linear);
  auto twin = torch::zeros({6}).requires_grad_();
  torch::optim::SGD optimizer({twin}, torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int i = 0; i < 10; ++i) {
    method->step(problem.batch(), problem.weights, i / 10.0);
    // PyTorch's velocity does not hold the rate, so a changed rate is the same formula.
    static_cast<torch::optim::SGDOptions&>(optimizer.param_groups()[0].options())
        .lr(0.05 * (1 - i / 10.0));
    twin.mutable_grad() = problem.curvature * (twin.detach() - 1);
    optimizer.step();
  }
  EXPECT_TRUE(torch::allclose(problem.weights, twin.detach(), 1e-5, 1e-6));
}

TEST(ProjectedSgd, IsSgdOfTheProjectedGradient) {
  Quadratic problem;
  const auto basis = rows(2);
  auto method = projected_sgd(problem.place(basis),
                              {.learning_rate = 0.1, .momentum = 0.9},
                              {.gamma = 0.9, .alpha = 0},
                              Decay::constant,
                              Decay::constant);
  auto w = torch::zeros({6}), v = torch::zeros({6});
  for (int i = 0; i < 20; ++i) {
    method->step(problem.batch(), problem.weights, 0);
    const auto g = problem.curvature * (w - 1);
    v = 0.9 * v + basis.t().mv(basis.mv(g));  // P'P g, as DLDR's train_psgd.py
    w = w - 0.1 * v;
  }
  EXPECT_TRUE(torch::allclose(problem.weights, w, 1e-5, 1e-6));
}

TEST(ProjectedSgd, WithTheResidualAtTheSameRateIsSgd) {
  Quadratic inside, whole;
  auto method = projected_sgd(inside.place(rows(3)),
                              {.learning_rate = 0.05, .momentum = 0.9},
                              {.gamma = 0.9, .alpha = 0.05},
                              Decay::cosine,
                              Decay::cosine);
  auto plain = sgd(whole.place({}), {.learning_rate = 0.05, .momentum = 0.9}, Decay::cosine);
  for (int i = 0; i < 20; ++i) {
    method->step(inside.batch(), inside.weights, i / 20.0);
    plain->step(whole.batch(), whole.weights, i / 20.0);
  }
  EXPECT_TRUE(torch::allclose(inside.weights, whole.weights, 1e-4, 1e-5));
}

TEST(Method, GoesOnFromWhatItSaved) {
  const auto options = preset("robust").step;
  for (const auto kind : {MethodKind::quasi_newton, MethodKind::psgd, MethodKind::sgd}) {
    Quadratic straight, broken;
    const auto basis = kind == MethodKind::sgd ? Subspace() : Subspace(rows(2));
    const MethodOptions chosen{.kind = kind, .step = options};
    auto one = make_method(chosen, straight.place(basis));
    auto other = make_method(chosen, broken.place(basis));
    for (int i = 0; i < 3; ++i) {
      one->step(straight.batch(), straight.weights, 0);
      other->step(broken.batch(), broken.weights, 0);
    }
    auto resumed = make_method(chosen, broken.place(basis));
    resumed->restore_numbers(nlohmann::json::parse(other->numbers().dump()));
    for (auto& [name, vector] : resumed->vectors()) vector.copy_(other->vectors().at(name));
    for (int i = 0; i < 3; ++i) {
      one->step(straight.batch(), straight.weights, 0);
      resumed->step(broken.batch(), broken.weights, 0);
    }
    EXPECT_TRUE(torch::equal(straight.weights, broken.weights)) << static_cast<int>(kind);
  }
}

TEST(Subspace, OfBlocksIsTheBlockDiagonalMatrix) {
  auto basis = torch::zeros({2, 6});
  basis.narrow(1, 0, 4).copy_(torch::randn({2, 4}));
  basis.narrow(1, 4, 2).copy_(torch::randn({2, 2}));
  const auto subspace = by_blocks(basis, {{0, 4}, {4, 6}});
  auto dense = torch::zeros({4, 6});
  dense.narrow(0, 0, 2).narrow(1, 0, 4).copy_(basis.narrow(1, 0, 4));
  dense.narrow(0, 2, 2).narrow(1, 4, 2).copy_(basis.narrow(1, 4, 2));
  const auto g = torch::randn({6});
  const auto g_k = project(subspace, g);
  const auto expected = project(dense, g);
  ASSERT_EQ(g_k.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(g_k[i], expected[i], 1e-6);
  const std::vector<double> a{1, -2, 3, 4}, b{0.5, 0, -1, 2};
  const auto [one, two] = back_project(subspace, a, b, g);
  const auto [first, second] = back_project(Subspace(dense), a, b, g);
  EXPECT_TRUE(torch::allclose(one, first));
  EXPECT_TRUE(torch::allclose(two, second));
}

/// Two blocks of one column each in a separable problem: each learns its own curvature in one step,
/// so the second step is Newton's in both, which one 1 x 2 direction cannot be.
TEST(QuasiNewton, LearnsEachBlocksOwnCurvature) {
  Quadratic problem;
  auto basis = torch::zeros({1, 6});
  basis[0][0] = 1;
  basis[0][1] = 1;
  const auto subspace = by_blocks(basis, {{0, 1}, {1, 6}});
  StepOptions options = preset("robust").step;
  options.residual.alpha = 0;
  options.bfgs.relative_curvature_floor = 0;
  auto method = quasi_newton(problem.place(subspace), options, Decay::constant);
  for (int i = 0; i < 2; ++i) method->step(problem.batch(), problem.weights, 0);
  EXPECT_NEAR(problem.weights[0].item<float>(), 1, 1e-5);
  EXPECT_NEAR(problem.weights[1].item<float>(), 1, 1e-5);
}

TEST(QuasiNewton, WithoutASubspaceSearchesAlongTheResidualAlone) {
  Quadratic problem;
  StepOptions options = preset("robust").step;
  options.residual.alpha = 0.1;
  Subspace none;
  none.own_columns = 6;
  auto method = quasi_newton(problem.place(none), options, Decay::constant);
  const auto report = method->step(problem.batch(), problem.weights, 0);
  EXPECT_EQ(report.direction_norm, 0);
  EXPECT_TRUE(torch::allclose(problem.weights, report.step_size * 0.1 * problem.curvature));
  for (int i = 0; i < 100; ++i) method->step(problem.batch(), problem.weights, 0);
  EXPECT_LT((problem.weights - 1).abs().max().item<float>(), 1e-2);
}

TEST(QuasiNewton, OfTheSameBatchKnowsTheCurvatureOfTheStepItTook) {
  Quadratic problem;
  const Subspace basis = torch::eye(6).narrow(0, 0, 1).contiguous();  // curvature 4
  StepOptions options = preset("robust").step;
  options.residual.alpha = 0;
  options.curvature = Curvature::same;
  const auto place = problem.place(basis);
  auto state = initial_state(place);
  const auto report = step(place, problem.batch(), problem.weights, state, options);
  EXPECT_EQ(report.update, UpdateOutcome::updated);
  EXPECT_EQ(report.gradients, 1);
  EXPECT_NEAR(state.inverse_hessians[0](0, 0), 0.25, 1e-6);
  EXPECT_FALSE(state.has_last);  // nothing is left to be compared with another batch
}

TEST(PowellDamping, MakesTheCurvatureAFifthOfTheModels) {
  const Eigen::Vector2d s(1, 2), b_s(3, 1);  // s'Bs = 5
  const Eigen::VectorXd good = powell_damped(s, Eigen::Vector2d(1, 0), b_s);
  EXPECT_EQ(good, Eigen::VectorXd(Eigen::Vector2d(1, 0)));  // s'y = 1 = .2 * 5
  const Eigen::VectorXd damped = powell_damped(s, Eigen::Vector2d(-4, -1), b_s);
  EXPECT_NEAR(s.dot(damped), 1, 1e-12);
}

TEST(Factor, FallsAsItsNameSays) {
  EXPECT_EQ(factor(Decay::constant, 1), 1);
  EXPECT_EQ(factor(Decay::linear, 0.25), 0.75);
  EXPECT_NEAR(factor(Decay::cosine, 0.5), 0.5, 1e-15);
  EXPECT_EQ(factor(Decay::cosine, 1), 0);
  EXPECT_EQ(factor(Decay::step, 0.49), 1);
  EXPECT_NEAR(factor(Decay::step, 0.5), 0.1, 1e-15);
  EXPECT_NEAR(factor(Decay::step, 0.75), 0.01, 1e-15);
}

TEST(Average, IsTheMeanOfTheIteratesThatCount) {
  const auto of = [](AverageKind kind, double from) {
    const AverageOptions options{.kind = kind, .from = from, .decay = 0.75};
    auto average = make_average(options, torch::zeros({2}));
    for (int i = 1; i <= 4; ++i)
      add(average, options, torch::full({2}, static_cast<float>(i)), i / 4.0);
    return std::pair{average.count, average.values[0].item<float>()};
  };
  EXPECT_EQ(of(AverageKind::uniform, 0), std::pair(std::int64_t{4}, 2.5F));
  EXPECT_EQ(of(AverageKind::uniform, 0.6), std::pair(std::int64_t{2}, 3.5F));
  // 1, then 1.25, 1.6875, 2.265625 by a <- .75 a + .25 w
  EXPECT_EQ(of(AverageKind::ema, 0), std::pair(std::int64_t{4}, 2.265625F));
  EXPECT_EQ(make_average({}, torch::zeros({2})).count, 0);
}

/// A trial is the gradient's own function: at t = 0 it gives the step's loss bit for bit.
TEST(BatchLoss, TrialsSeeTheSamePenaltiesAsTheGradient) {
  for (const bool sharp : {false, true}) {
    auto setup = training::toy_setup(models::Precision::float32);
    auto batch = training::first_batch(setup);
    const training::Step now{.batch = training::to_minibatch(setup, batch),
                             .global_count = batch.global_count,
                             .key = {.epoch = 1, .step = 2}};
    const PenaltyOptions penalty{.weight_decay = 1e-2, .sam_radius = sharp ? 0.05 : 0};
    Passes passes;
    const auto buffers = setup.flat.buffers.clone();
    const auto prepared = prepare(setup, now, penalty, false, passes);
    EXPECT_EQ(passes.forward, sharp ? 2 : 1);
    EXPECT_EQ(passes.backward, sharp ? 2 : 1);
    EXPECT_EQ(prepared.loss.evaluate(), prepared.loss.loss());
    EXPECT_GT(prepared.loss.loss(), prepared.result.get().mean_loss());
    EXPECT_FALSE(torch::equal(setup.flat.buffers, buffers));  // the gradient moved them, once
    const auto moved = setup.flat.buffers.clone();
    EXPECT_TRUE(torch::equal(prepared.loss.gradient_here(), prepared.loss.gradient));
    EXPECT_TRUE(torch::equal(setup.flat.buffers, moved));

    // Along the gradient: central differences in float32 losses.
    const torch::NoGradGuard no_grad;
    const auto start = setup.flat.weights.clone();
    const auto norm = prepared.loss.gradient.norm().item<double>();
    const double h = 1e-3;
    setup.flat.weights.add_(prepared.loss.gradient, h / norm);
    const double up = prepared.loss.evaluate();
    setup.flat.weights.copy_(start).sub_(prepared.loss.gradient, h / norm);
    const double down = prepared.loss.evaluate();
    EXPECT_NEAR((up - down) / (2 * h), norm, 5e-3 * norm) << sharp;
    setup.flat.weights.copy_(start);
  }
}

}  // namespace
}  // namespace dimred::stage2
