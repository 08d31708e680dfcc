#include <algorithm>
#include <fstream>
#include <iomanip>

#include "checkpoints/state.h"
#include "run/builtin_hooks.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/formatted.h"

namespace dimred::run {
namespace {

constexpr auto time_header = "step,seconds,images_per_second,data_wait_seconds\n";
constexpr auto state_key = "step_times";

class TimeHistory final : public Hook {
 public:
  void begin(const RunView& run) override {
    if (run.setup->communicator->rank() != 0) return;
    path_ = run.folder->path() / "step_times.csv";
    out_ = open_csv(path_, time_header, prefix_);
  }

  void after_step(const RunView& run,
                  const StepSummary& step,
                  const models::Minibatch& /*batch*/) override {
    seconds_.push_back(step.seconds);
    if (path_.empty()) return;
    out_ << run.position->step << std::fixed << std::setprecision(6) << ',' << step.seconds << ','
         << std::setprecision(1) << step.result.sample_count / step.seconds << ','
         << std::setprecision(6) << step.data_wait_seconds << '\n';
  }

  void save(const RunView& run, checkpoints::State& state) override {
    if (path_.empty()) return;
    flush();
    state.scalars[state_key] = to_json(prefix_of(path_));
    run.writer->submit([path = path_] { sync_file(path); });
  }

  void restore(const engine::Setup& /*setup*/, const checkpoints::State& state, bool own) override {
    if (own && state.scalars.contains(state_key))
      prefix_ = prefix_from_json(state.scalars.at(state_key));
  }

  void end(const RunView& run) override {
    if (path_.empty() || seconds_.empty()) return;
    flush();
    std::ranges::sort(seconds_);
    const auto at = [&](std::size_t percent) {
      return duration_text(seconds_[(seconds_.size() - 1) * percent / 100]);
    };
    run.console->line(formatted(
        "duration of a step: median {}, 95 % within {}, longest {}", at(50), at(95), at(100)));
  }

 private:
  void flush() {
    out_.flush();
    require_environment(out_.good(), "[time_history] cannot write {}; is the disk full?", path_);
  }

  std::filesystem::path path_;  // empty: not rank 0
  FilePrefix prefix_;           // of the state taken up
  std::ofstream out_;
  std::vector<float> seconds_;  // of this process's steps
};

}  // namespace

std::unique_ptr<Hook> make_time_history() { return std::make_unique<TimeHistory>(); }

}  // namespace dimred::run
