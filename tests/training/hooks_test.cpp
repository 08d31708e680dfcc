#include "training/hooks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <type_traits>

#include "support/errors.h"
#include "tests/tools/toy_setup.h"
#include "training/device/device.h"
#include "training/hook_options.h"
#include "training/train.h"
#include "training/weights/average.h"

namespace dimred::training {
namespace {

TEST(Average, TakesTheFirstAsItIs) {
  const method::AverageOptions ema{.kind = method::AverageKind::ema, .from = 0, .decay = 0.75};
  auto average = make_average(ema, torch::zeros({2}));
  add(average, ema, torch::full({2}, 4.F));
  EXPECT_EQ(average.values[0].item<float>(), 4);
  add(average, ema, torch::full({2}, 8.F));
  EXPECT_EQ(average.values[0].item<float>(), 5);
  EXPECT_EQ(average.count, 2);
}

/// Defazio et al. 2024, of the loss w^2 / 2 in numbers: y = (1 - beta) z + beta x,
/// z <- z - rate y, x <- the mean of the z so far.
TEST(Average, MovesAsScheduleFreeSgdIsPublished) {
  constexpr double beta = method::schedule_free_beta, rate = 0.5;
  const method::AverageOptions options{.kind = method::AverageKind::schedule_free};
  auto weights = torch::full({1}, 3.0, torch::kFloat64);
  auto average = make_average(options, weights);
  average.values.copy_(weights);
  double x = 3, z = 3, sum = 0;
  for (int n = 1; n <= 20; ++n) {
    weights.sub_(weights.clone(), (1 - beta) * rate);
    move_schedule_free(average, options, weights);
    z -= rate * ((1 - beta) * z + beta * x);
    sum += z;
    x = sum / n;
    ASSERT_NEAR(average.values.item<double>(), x, 1e-12) << n;
    ASSERT_NEAR(weights.item<double>(), (1 - beta) * z + beta * x, 1e-12) << n;
  }
  EXPECT_LT(std::abs(x), 0.5);
}

/// Writes to the same place in any order have no deterministic form: torch refuses them.
TEST(Deterministic, RefusesWhatIsNot) {
  const auto put = [] {
    torch::zeros({4}).put_(torch::tensor({1, 1}), torch::tensor({2.F, 3.F}), /*accumulate=*/false);
  };
  EXPECT_NO_THROW(put());
  make_deterministic();
  EXPECT_THROW(put(), c10::Error);
  at::globalContext().setDeterministicAlgorithms(false, false);
}

TEST(Hooks, UnknownOnesAndThoseNamedTwiceAreRefused) {
  const auto text = [](const HookOptions& options, int ranks = 1) -> std::string {
    try {
      validate(options, ranks);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(text({.hooks = "batches"}), "");
  EXPECT_NE(text({.hooks = "bacthes"}).find("did you mean batches?"), std::string::npos);
  EXPECT_NE(text({.hooks = "batches, batches"}).find("batches twice"), std::string::npos);
  EXPECT_NE(text({.hooks = ","}).find("received an empty one"), std::string::npos);
  EXPECT_NE(text({.profile_every_n_iters = 1, .profile_at_task = 1}).find("the 1 ranks"),
            std::string::npos);
  EXPECT_EQ(text({.profile_every_n_iters = 1, .profile_at_task = 1}, 2), "");
}

/// Notes what it is called with.
class Noting final : public Hook {
 public:
  explicit Noting(std::string& notes, std::int64_t last) : notes_(notes), last_(last) {}
  void begin(const RunView& /*run*/) override { notes_ += "begin "; }
  void before_step(const RunView& run) override {
    notes_ += formatted("before{} ", run.position->step);
  }
  void after_step(const RunView& run,
                  const StepSummary& step,
                  const models::Minibatch& batch) override {
    notes_ += formatted("after{} ", run.position->step);
    EXPECT_EQ(step.images, 32);
    EXPECT_EQ(batch.images.size(0), 32);
    EXPECT_GE(step.seconds, step.data_wait_seconds);
  }
  bool should_stop(const RunView& run) const override { return run.position->step == last_; }

 private:
  std::string& notes_;
  std::int64_t last_;
};

/// All that a stage has to say, but for when it is done. A run by a budget has no number of epochs
/// that an epoch could be compared with.
struct StageOfLosses : Stage {
  CurveRow named_row(const Run& /*run*/) const override { return {}; }
  std::string epoch_label(const Position& /*position*/) const override { return {}; }
  std::optional<std::int64_t> epochs() const override { return {}; }
  BatchResult step(Run& run, const Step& now) override {
    return loss_only(*run.setup, now.batch, now.key);
  }
  void save(const Run& /*run*/, checkpoints::State& /*state*/) override {}
  void restore(Run& /*run*/, const checkpoints::State& /*state*/) override {}
};
static_assert(std::is_abstract_v<StageOfLosses>);

struct EndlessStage final : StageOfLosses {
  bool is_done(const Position& /*position*/) const override { return false; }
};

/// Three steps of the toy data make an epoch.
TEST(Hooks, AreCalledAroundEachStepUntilOneWantsTheEnd) {
  for (const std::int64_t last : {2, 3}) {
    auto setup = toy_setup(models::Precision::float32);
    const auto path =
        std::filesystem::temp_directory_path() / formatted("dimred_hooks_{}", ::getpid());
    const RunFolder folder(path, {}, *setup.communicator);
    Console quiet(/*quiet=*/true);
    training::Run run{
        .setup = &setup, .folder = &folder, .console = &quiet, .states = {folder.checkpoints(), 1}};
    std::string notes;
    run.hooks.add(nullptr);
    run.hooks.add(std::make_unique<Noting>(notes, last));
    run.hooks.call(&Hook::begin, run.view());
    EndlessStage stage;
    const auto end = run_epoch(run, stage);
    // The end of an epoch is no end in its middle.
    EXPECT_EQ(end, last == 2 ? EpochEnd::enough : EpochEnd::finished);
    const std::string two = "begin before0 after1 before1 after2 ";
    EXPECT_EQ(notes, last == 2 ? two : two + "before2 after3 ");
    std::filesystem::remove_all(path);
  }
}

}  // namespace
}  // namespace dimred::training
