#include "run/hooks.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "run/hook_options.h"
#include "run/train.h"
#include "support/errors.h"
#include "tests/tools/temporary_folder.h"
#include "tests/tools/toy_setup.h"

namespace dimred::run {
namespace {

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
  EXPECT_NE(text({.hooks = "batches, batches"})
                .find("must not name batches twice, received batches, batches"),
            std::string::npos);
  EXPECT_NE(text({.hooks = ","}).find("received an empty name"), std::string::npos);
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
    EXPECT_EQ(step.result.sample_count, 32);
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
  engine::BatchResult step(Run& run, const engine::DeviceBatch& batch) override {
    return engine::loss_only(*run.setup, batch.tensors, batch.key);
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
    auto setup = engine::toy_setup(models::Precision::float32);
    const TemporaryFolder place;
    const RunFolder folder(place / "run", {}, *setup.communicator);
    Console quiet(/*quiet=*/true);
    run::Run run{
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
  }
}

}  // namespace
}  // namespace dimred::run
