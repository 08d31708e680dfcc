#include "method/quasi_newton.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "method/make_method.h"
#include "method/presets.h"
#include "method/validate.h"
#include "tests/method/quadratic_space.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::method {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

MethodOptions robust(double alpha) {
  auto options = preset("robust").method;
  options.residual.alpha = alpha;
  return options;
}

struct Descent {
  QuadraticSpace space;
  std::unique_ptr<Method> method;

  Descent(const MethodOptions& options, MatrixXd rows, std::vector<Eigen::Index> blocks = {})
      : space(six_curvatures(), std::move(rows), std::move(blocks)),
        method(make_method(options, space.block_sizes())) {}
  StepReport step() { return method->step(space, 0); }
};

TEST(QuasiNewton, MovesOnlyInsideTheSubspaceWithoutResidual) {
  Descent descent(robust(0), first_axes(2));
  for (int i = 0; i < 30; ++i) descent.step();
  EXPECT_NEAR(descent.space.w[0], 1, 1e-8);
  EXPECT_NEAR(descent.space.w[1], 1, 1e-8);
  EXPECT_EQ(descent.space.w.tail(4), VectorXd::Zero(4));
}

TEST(QuasiNewton, ResidualMomentumMovesWhatLiesOutside) {
  Descent descent(robust(0.1), first_axes(2));
  for (int i = 0; i < 200; ++i) descent.step();
  EXPECT_LT((descent.space.w.array() - 1).abs().maxCoeff(), 1e-3);
}

TEST(QuasiNewton, ReportsTheLossAndSlopeOfTheSearchedDirection) {
  Descent descent(robust(0.02), first_axes(2));
  const auto report = descent.step();
  // g = -(4, 1, 2, 3, 0.5, 5), d = (4, 1), m = (0, 0, -2, -3, -.5, -5): m'g = 38.25.
  EXPECT_NEAR(report.slope, -17 - 0.02 * 38.25, 1e-12);
  EXPECT_NEAR(report.loss, 7.75, 1e-12);
  EXPECT_NEAR(report.residual_norm, std::sqrt(38.25), 1e-12);
  EXPECT_EQ(report.search.loss, descent.space.value());
}

TEST(QuasiNewton, FailedSearchLeavesWeightsAndInverseHessianAlone) {
  Descent descent(robust(0.005), first_axes(2));
  descent.step();
  const VectorXd w = descent.space.w;
  const auto numbers = descent.method->state_dict();
  descent.space.disturb_loss = [](double loss) { return loss + 100; };
  const auto report = descent.step();
  EXPECT_EQ(report.search.outcome, SearchOutcome::no_decrease);
  EXPECT_EQ(report.step_size, 0);
  EXPECT_EQ(descent.space.w, w);
  EXPECT_EQ(descent.method->state_dict().at("inverse_hessian"), numbers.at("inverse_hessian"));
  descent.space.disturb_loss = {};
  EXPECT_EQ(descent.step().update, UpdateOutcome::none);
}

/// t, s and last g_k after a search that failed, as each published version leaves them.
TEST(QuasiNewton, EndsAFailedSearchAsItsSourceDoes) {
  struct Case {
    FailedSearch ending;
    double t;          // of trials 1, 1/2
    bool keeps_old_s;  // s of the step before
    bool keeps_old_g;
  };
  for (const auto& [ending, t, old_s, old_g] :
       {Case{FailedSearch::mindspore_latest, 0, true, true},
        Case{FailedSearch::mindspore_first, 0.5, true, false},
        Case{FailedSearch::dldr, 0.25, false, false}}) {
    auto options = robust(0);
    options.search = {.contraction = 0.5, .sufficient_decrease = 0.01, .trials = 2};
    options.failed_search = ending;
    Descent descent(options, first_axes(2));
    descent.step();
    const auto before = descent.method->state_dict();
    const VectorXd w = descent.space.w;
    descent.space.disturb_loss = [](double loss) { return loss + 100; };
    const auto report = descent.step();
    const auto after = descent.method->state_dict();
    EXPECT_EQ(report.step_size, t);
    EXPECT_EQ(descent.space.w == w, t == 0);
    EXPECT_EQ(after.at("s") == before.at("s"), old_s);
    EXPECT_EQ(after.at("last_gradient") == before.at("last_gradient"), old_g);
    EXPECT_EQ(after.at("has_last")[0], 1);
  }
}

TEST(QuasiNewton, NonFiniteGradientChangesNothing) {
  Descent descent(robust(0.005), first_axes(2));
  descent.step();
  const VectorXd w = descent.space.w, m = descent.space.m;
  const auto numbers = descent.method->state_dict();
  descent.space.disturb_gradient = [](VectorXd& g) {
    g[3] = std::numeric_limits<double>::quiet_NaN();
  };
  EXPECT_TRUE(descent.step().not_finite);
  EXPECT_EQ(descent.space.w, w);
  EXPECT_EQ(descent.space.m, m);
  EXPECT_EQ(descent.method->state_dict(), numbers);
}

TEST(QuasiNewton, RestoresWeightsMomentumAndStateWhenATrialThrows) {
  Descent descent(robust(0.005), first_axes(2));
  descent.step();
  const VectorXd w = descent.space.w, m = descent.space.m;
  const auto numbers = descent.method->state_dict();
  descent.space.disturb_loss = [](double) -> double { throw std::runtime_error("stopped"); };
  EXPECT_THROW(descent.step(), std::runtime_error);
  EXPECT_EQ(descent.space.w, w);
  EXPECT_EQ(descent.space.m, m);
  EXPECT_EQ(descent.method->state_dict(), numbers);
}

/// The state takes over what the step learnt only at its end: here the last gradient comes too
/// late.
TEST(QuasiNewton, RestoresItsStateWhenTheCurvatureOfTheSameBatchCannotBeMeasured) {
  auto options = robust(0.005);
  options.curvature = Curvature::same;
  Descent descent(options, first_axes(2));
  descent.step();
  const VectorXd w = descent.space.w, m = descent.space.m;
  const auto numbers = descent.method->state_dict();
  descent.space.disturb_gradient = [calls = 0](VectorXd&) mutable {
    if (++calls == 2) throw std::runtime_error("stopped");
  };
  EXPECT_THROW(descent.step(), std::runtime_error);
  EXPECT_EQ(descent.space.w, w);
  EXPECT_EQ(descent.space.m, m);
  EXPECT_EQ(descent.method->state_dict(), numbers);
}

TEST(Method, LetsTheFirstErrorThroughWhereTheSpaceCannotBeRestored) {
  for (const auto kind : {MethodKind::quasi_newton, MethodKind::psgd}) {
    auto options = robust(0.005);
    options.kind = kind;
    Descent descent(options, first_axes(2));
    descent.space.disturb_gradient = [](VectorXd&) { throw std::runtime_error("first"); };
    descent.space.disturb_restore = [] { throw std::logic_error("second\nstack"); };
    testing::internal::CaptureStderr();
    std::string error;
    try {
      descent.step();
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "[dimred] the clean-up after an error failed: second\n");
    EXPECT_EQ(error, "first");
  }
}

/// A failing step may have no memory for its way back.
TEST(Method, DoesNotSaveItsStateToStep) {
  struct Unsaved final : Method {
    StateDict state_dict() const override { throw std::bad_alloc(); }
    void restore(const StateDict& /*dict*/) override { throw std::bad_alloc(); }
    StepReport descend(SubspaceSpace& space, double /*progress*/) override {
      space.gradient(Buffers::move);
      return {};
    }
  };
  QuadraticSpace space(six_curvatures(), first_axes(2));
  EXPECT_NO_THROW(Unsaved().step(space, 0));
  bool restored = false;
  space.disturb_restore = [&] { restored = true; };
  space.disturb_gradient = [](VectorXd&) { throw std::runtime_error("stopped"); };
  EXPECT_THROW(Unsaved().step(space, 0), std::runtime_error);
  EXPECT_TRUE(restored);
}

TEST(QuasiNewton, RefusesAnUpdateRuleThatThereIsNot) {
  const std::vector<Eigen::Index> blocks{2};
  EXPECT_EQ(thrown<std::invalid_argument>([&] { QuasiNewton({.update_rule = "bgfs"}, blocks); }),
            "[method] the update rule bgfs is unknown");
}

/// Two blocks of one row each in a separable problem: each learns its own curvature in one step, so
/// the second step is Newton's in both, which one 1 x 2 direction cannot be.
TEST(QuasiNewton, LearnsEachBlocksOwnCurvature) {
  auto options = robust(0);
  options.floors.relative = 0;
  Descent descent(options, first_axes(2), {1, 1});
  for (int i = 0; i < 2; ++i) descent.step();
  EXPECT_NEAR(descent.space.w[0], 1, 1e-12);
  EXPECT_NEAR(descent.space.w[1], 1, 1e-12);
}

TEST(QuasiNewton, WithoutASubspaceSearchesAlongTheResidualAlone) {
  Descent descent(robust(0.1), first_axes(0));
  const auto report = descent.step();
  EXPECT_EQ(report.direction_norm, 0);
  EXPECT_LT((descent.space.w - report.step_size * 0.1 * six_curvatures()).norm(), 1e-15);
  for (int i = 0; i < 100; ++i) descent.step();
  EXPECT_LT((descent.space.w.array() - 1).abs().maxCoeff(), 1e-2);
}

TEST(QuasiNewton, OfTheSameBatchKnowsTheCurvatureOfTheStepItTook) {
  auto options = robust(0);
  options.curvature = Curvature::same;
  Descent descent(options, first_axes(1));  // curvature 4
  const auto report = descent.step();
  EXPECT_EQ(report.update, UpdateOutcome::updated);
  EXPECT_EQ(report.gradients, 1);
  EXPECT_NEAR(descent.method->state_dict().at("inverse_hessian")[0], 0.25, 1e-12);
  EXPECT_EQ(descent.method->state_dict().at("has_last")[0], 0);  // nothing for another batch
}

/// A step that the version of MindSpore takes although its search failed tells nothing of a batch.
TEST(QuasiNewton, OfTheSameBatchLearnsNothingBetweenBatches) {
  auto options = robust(0);
  options.curvature = Curvature::same;
  options.failed_search = FailedSearch::mindspore_first;
  Descent descent(options, first_axes(1));
  descent.step();
  const auto learnt = descent.method->state_dict().at("inverse_hessian");
  descent.space.disturb_loss = [](double loss) { return loss + 100; };
  EXPECT_EQ(descent.step().search.outcome, SearchOutcome::no_decrease);
  EXPECT_EQ(descent.method->state_dict().at("has_last")[0], 0);
  EXPECT_EQ(descent.step().update, UpdateOutcome::none);
  EXPECT_EQ(descent.method->state_dict().at("inverse_hessian"), learnt);
}

TEST(Method, GoesOnFromWhatItSaved) {
  for (const auto kind : {MethodKind::quasi_newton, MethodKind::psgd, MethodKind::sgd}) {
    auto options = robust(0.005);
    options.kind = kind;
    const auto rows = first_axes(kind == MethodKind::sgd ? 0 : 2);
    Descent straight(options, rows), broken(options, rows);
    for (int i = 0; i < 3; ++i) {
      straight.step();
      broken.step();
    }
    auto resumed = make_method(options, broken.space.block_sizes());
    resumed->restore(broken.method->state_dict());
    for (int i = 0; i < 3; ++i) {
      straight.step();
      resumed->step(broken.space, 0);
    }
    EXPECT_EQ(straight.space.w, broken.space.w) << static_cast<int>(kind);
  }
}

TEST(Method, RefusesTheNumbersOfAnotherMethodOrSize) {
  Descent two(robust(0), first_axes(2)), three(robust(0), first_axes(3));
  EXPECT_THROW(two.method->restore(three.method->state_dict()), std::invalid_argument);
  EXPECT_THROW(two.method->restore({{"velocity", {1, 2}}}), std::invalid_argument);
}

TEST(Presets, HaveThePublishedConstants) {
  const auto& latest = preset("mindspore-latest").method;
  EXPECT_EQ(latest.search.contraction, 0.55);
  EXPECT_EQ(latest.search.sufficient_decrease, 0.4);
  EXPECT_EQ(latest.search.trials, 2);
  EXPECT_EQ(latest.residual.gamma, 0.9);
  EXPECT_EQ(latest.residual.alpha, 0.001);
  EXPECT_EQ(preset("mindspore-first").method.search.trials, 3);
  EXPECT_EQ(preset("dldr").method.search.contraction, 0.4);
  EXPECT_EQ(preset("dldr").components, 40);
  EXPECT_EQ(preset("dldr").start, Start::first);
  EXPECT_EQ(preset("dldr").method.residual.alpha, 0);
  EXPECT_EQ(presets().front().name, "robust");
  EXPECT_THROW(preset("robst"), std::invalid_argument);
  for (const auto& each : presets()) EXPECT_NO_THROW(validate(each)) << each.name;
}

TEST(Options, RefuseNumbersOutOfRangeByName) {
  auto options = robust(0);
  options.search.contraction = 1;
  EXPECT_EQ(thrown<std::invalid_argument>([&] { validate(options); }),
            "[method] rho needs a number in (0, 1), received 1");
  options = robust(0);
  options.update_rule = "sr7";
  EXPECT_THROW(validate(options), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::method
