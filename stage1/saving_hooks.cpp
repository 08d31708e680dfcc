#include "stage1/saving_hooks.h"

#include <algorithm>
#include <filesystem>

#include "checkpoints/snapshot_list.h"
#include "run/state.h"
#include "support/counted.h"
#include "support/errors.h"

namespace dimred::stage1 {
namespace {

class Snapshots final : public run::Hook {
 public:
  Snapshots(const SaveOptions& options, const run::RunFolder& folder)
      : options_(options), store_(folder.snapshots(), options.keep_snapshots) {
    list_.keep = options.keep_snapshots;
  }

  void begin(const run::RunView& run) override {
    if (run.setup->communicator->rank() == 0) {
      const auto different = checkpoints::difference(list_, store_.folder());
      if (!different.empty()) run.console->warn(different + "; training goes on without them");
    }
    if (options_.snapshot_initial && run.position->step == 0) take(run);
  }

  void after_step(const run::RunView& run,
                  const run::StepSummary& /*step*/,
                  const models::Minibatch& /*batch*/) override {
    if (due(run)) take(run);
  }

  void end(const run::RunView& run) override {
    if (options_.snapshots_per_epoch == 0 || run.setup->communicator->rank() != 0) return;
    // The writer has done its work; a person may have deleted files.
    const auto count = std::ranges::count_if(list_.digests, [&](const auto& one) {
      return std::filesystem::exists(store_.folder() / one.first);
    });
    if (count == 0 && run.position->epoch < options_.snapshot_from_epoch)
      run.console->line(
          formatted("no snapshot yet: epoch {} writes the first", options_.snapshot_from_epoch));
    else if (count < 2)
      run.console->line(formatted(
          "{}: a PCA needs 2 or more; give more --epochs or a larger --snapshots_per_epoch",
          counted(count, "snapshot")));
    else
      run.console->line(formatted(
          "{} snapshots are enough for up to {}", count, counted(count - 1, "component")));
  }

  void save(const run::RunView& run, checkpoints::State& state) override {
    if (run.setup->communicator->rank() != 0) return;
    run.writer->wait();  // the list is complete then
    state.scalars[state_key] = checkpoints::to_json(list_);
  }

  void restore(const engine::Setup& setup, const checkpoints::State& state, bool own) override {
    if (!own || setup.communicator->rank() != 0) return;
    list_ = checkpoints::snapshot_list_from_json(state.scalars.at(state_key));
    list_.keep = options_.keep_snapshots;
  }

 private:
  static constexpr auto state_key = "snapshots";

  void take(const run::RunView& run) {
    auto snapshot = run::start_snapshot(*run.setup, *run.position, *run.record);
    if (!snapshot) return;
    run.writer->submit([this, snapshot = std::move(snapshot)] {
      const auto [file, digest] = store_.save(snapshot());
      list_.add(file.filename().string(), digest);
    });
  }

  bool due(const run::RunView& run) const {
    const auto& position = *run.position;
    const auto a_epoch = options_.snapshots_per_epoch;
    if (a_epoch == 0 || position.epoch + 1 < options_.snapshot_from_epoch) return false;
    const auto steps = run.setup->data.steps_per_epoch();
    const auto before = [&](std::int64_t step) { return step * a_epoch / steps; };
    return before(position.step_in_epoch) > before(position.step_in_epoch - 1);
  }

  SaveOptions options_;
  checkpoints::SnapshotStore store_;
  checkpoints::SnapshotList list_;  // the writer adds to it
};

}  // namespace

std::unique_ptr<run::Hook> make_snapshots(const SaveOptions& options,
                                          const run::RunFolder& folder) {
  return std::make_unique<Snapshots>(options, folder);
}

}  // namespace dimred::stage1
