#include "stage1/early_stopping.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "run/state.h"
#include "support/counted.h"
#include "support/errors.h"

namespace dimred::stage1 {
/// The best validation accuracy so far, and what follows from it. Source: MoXing's
/// EarlyStoppingHook (min_delta 0.01, patience 3).
struct BestSoFar {
  double best = -1;          // the greatest
  double reference = -1;     // the last that was better by min_delta
  std::int64_t without = 0;  // epochs since then

  /// After each epoch. True when it is the best of all, by any amount.
  bool add(double accuracy, double min_delta) {
    if (accuracy > reference + min_delta || reference < 0) {
      reference = accuracy;
      without = 0;
    } else {
      ++without;
    }
    const bool better = accuracy > best;
    best = std::max(best, accuracy);
    return better;
  }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BestSoFar, best, reference, without)

namespace {

constexpr auto state_key = "best";

class EarlyStopping final : public run::Hook {
 public:
  EarlyStopping(const ControlOptions& options, const run::RunFolder& folder)
      : options_(options), store_(folder.path() / "best", 1) {}

  void after_epoch(const run::RunView& run, const run::CurveRow& row) override {
    const bool better =
        best_.add(row.validation_accuracy.value(), options_.early_stopping_min_delta);
    if (better && options_.keep_best) {
      auto snapshot = run::start_snapshot(*run.setup, *run.position, *run.record);
      if (snapshot)
        run.writer->submit([this, snapshot = std::move(snapshot)] { store_.save(snapshot()); });
    }
    report_end(run);
  }

  void begin(const run::RunView& run) override { report_end(run); }

  bool should_stop(const run::RunView& /*run*/) const override {
    const auto patience = options_.early_stopping_patience;
    return patience > 0 && best_.without >= patience;
  }

  void save(const run::RunView& /*run*/, checkpoints::State& state) override {
    state.scalars[state_key] = best_;
  }

  void restore(const engine::Setup& /*setup*/, const checkpoints::State& state, bool own) override {
    // A run that continues another one has a patience and a best/ of its own.
    if (own && state.scalars.contains(state_key)) state.scalars.at(state_key).get_to(best_);
  }

 private:
  void report_end(const run::RunView& run) const {
    if (!should_stop(run)) return;
    run.console->line(
        formatted("early stopping: no better validation accuracy in {}; the best was {} %",
                  counted(best_.without, "epoch"),
                  100 * best_.best));
  }

  ControlOptions options_;
  BestSoFar best_;
  checkpoints::SnapshotStore store_;
};

}  // namespace

std::unique_ptr<run::Hook> make_early_stopping(const ControlOptions& options,
                                               const run::RunFolder& folder) {
  if (options.early_stopping_patience == 0 && !options.keep_best) return nullptr;
  return std::make_unique<EarlyStopping>(options, folder);
}

}  // namespace dimred::stage1
