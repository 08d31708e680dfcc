#include "stage1/saving_hooks.h"

#include "checkpoints/snapshot_list.h"
#include "checkpoints/step_names.h"
#include "support/counted.h"
#include "support/errors.h"
#include "training/state.h"

namespace dimred::stage1 {
namespace {

class Snapshots final : public training::Hook {
 public:
  Snapshots(const SaveOptions& options, const training::RunFolder& folder)
      : options_(options), store_(folder.snapshots(), options.keep_snapshots) {
    list_.keep = options.keep_snapshots;
  }

  void begin(const training::RunView& run) override {
    if (run.setup->communicator->rank() == 0) {
      const auto different = checkpoints::difference(list_, store_.folder());
      if (!different.empty()) run.console->warn(different + "; training goes on without them");
    }
    if (options_.snapshot_initial && run.position->step == 0) take(run);
  }

  void after_step(const training::RunView& run,
                  const training::StepSummary& /*step*/,
                  const models::Minibatch& /*batch*/) override {
    if (due(run)) take(run);
  }

  void end(const training::RunView& run) override {
    if (options_.snapshots_per_epoch == 0 || run.setup->communicator->rank() != 0) return;
    const auto count = std::ssize(list_.digests);  // the writer has done its work
    if (count == 0 && run.position->epoch < options_.snapshot_from_epoch)
      run.console->line(
          formatted("no snapshot yet: epoch {} writes the first", options_.snapshot_from_epoch));
    else if (count < 2)
      run.console->line(formatted(
          "{}: a PCA needs 2 or more; more --epochs or a larger --snapshots_per_epoch writes them",
          counted(count, "snapshot")));
    else
      run.console->line(
          formatted("{} snapshots: enough for up to {}", count, counted(count - 1, "component")));
  }

  void save(const training::RunView& run, checkpoints::State& state) override {
    if (run.setup->communicator->rank() != 0) return;
    run.writer->wait();  // the list is complete then
    state.scalars[state_key] = checkpoints::to_json(list_);
  }

  void restore(const training::Setup& setup, const checkpoints::State& state, bool own) override {
    if (!own || setup.communicator->rank() != 0) return;
    list_ = checkpoints::snapshot_list_from_json(state.scalars.at(state_key));
    list_.keep = options_.keep_snapshots;
  }

 private:
  static constexpr auto state_key = "snapshots";

  void take(const training::RunView& run) {
    auto snapshot = training::start_snapshot(*run.setup, *run.position);
    if (!snapshot) return;
    run.writer->submit([this, snapshot = std::move(snapshot)] {
      const auto [file, digest] = store_.save(snapshot());
      list_.add(file.filename().string(), digest);
    });
  }

  bool due(const training::RunView& run) const {
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

std::unique_ptr<training::Hook> make_snapshots(const SaveOptions& options,
                                               const training::RunFolder& folder) {
  return std::make_unique<Snapshots>(options, folder);
}

}  // namespace dimred::stage1
