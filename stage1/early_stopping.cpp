#include <nlohmann/json.hpp>

#include "stage1/hooks.h"
#include "support/errors.h"
#include "training/state.h"

namespace dimred::stage1 {
namespace {

constexpr auto state_key = "best";

class EarlyStopping final : public Hook {
 public:
  EarlyStopping(const ControlOptions& options, const training::RunFolder& folder)
      : options_(options), store_(folder.path() / "best", 1) {}

  void after_epoch(const training::RunView& run, const training::CurveRow& row) override {
    const bool better =
        best_.add(row.validation_accuracy.value(), options_.early_stopping_min_delta);
    if (better && options_.keep_best) {
      auto snapshot = training::start_snapshot(run.setup, run.position);
      if (snapshot)
        run.writer.submit([this, snapshot = std::move(snapshot)] { store_.save(snapshot()); });
    }
    report_end(run);
  }

  void begin(const training::RunView& run) override { report_end(run); }

  bool should_stop(const training::RunView& /*run*/) const override {
    const auto patience = options_.early_stopping_patience;
    return patience > 0 && best_.epochs_without() >= patience;
  }

  void save(const training::RunView& /*run*/, checkpoints::State& state) override {
    state.scalars[state_key] = best_.to_json();
  }

  void restore(const training::Setup& /*setup*/,
               const checkpoints::State& state,
               bool own) override {
    // A run that continues another one has a patience and a best/ of its own.
    if (own && state.scalars.contains(state_key)) best_.restore(state.scalars.at(state_key));
  }

 private:
  void report_end(const training::RunView& run) const {
    if (!should_stop(run)) return;
    run.console.line(
        formatted("early stopping: no better validation accuracy in {} epochs; the best was {} %",
                  best_.epochs_without(),
                  100 * best_.accuracy()));
  }

  ControlOptions options_;
  BestSoFar best_;
  checkpoints::SnapshotStore store_;
};

}  // namespace

std::unique_ptr<Hook> make_early_stopping(const ControlOptions& options,
                                          const training::RunFolder& folder) {
  if (options.early_stopping_patience == 0 && !options.keep_best) return nullptr;
  return std::make_unique<EarlyStopping>(options, folder);
}

}  // namespace dimred::stage1
