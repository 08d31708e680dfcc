#include "stage1/step_log.h"

#include <algorithm>
#include <functional>
#include <iomanip>
#include <sstream>

#include "support/stopwatch.h"

namespace dimred::stage1 {
namespace {

class StepLogHook final : public run::Hook {
 public:
  StepLogHook(std::int64_t every, std::function<double()> learning_rate)
      : every_(every), learning_rate_(std::move(learning_rate)) {}

  void begin(const run::RunView& /*run*/) override { clock_.restart(); }

  void after_step(const run::RunView& run,
                  const run::StepSummary& step,
                  const models::Minibatch& /*batch*/) override {
    sums_.add(step.result);
    ++steps_;
    if (run.position->step % every_ == 0) run.console->line(line(run.position->step));
  }

 private:
  /// The line, and a new beginning.
  std::string line(std::int64_t step) {
    const double seconds = clock_.restart();
    std::ostringstream out;
    out << "step " << step << std::fixed << std::setprecision(4) << "  loss " << sums_.mean_loss()
        << std::setprecision(2) << "  accuracy " << 100 * sums_.accuracy() << " %  rate "
        << std::defaultfloat << std::setprecision(4) << learning_rate_() << "  " << seconds / steps_
        << " s/step  " << std::fixed << std::setprecision(0) << sums_.sample_count / seconds
        << " samples/s";
    sums_ = {};
    steps_ = 0;
    return out.str();
  }

  std::int64_t every_;
  std::function<double()> learning_rate_;
  engine::BatchResult sums_;
  std::int64_t steps_ = 0;
  Stopwatch clock_;
};

}  // namespace

std::unique_ptr<run::Hook> make_step_log(const ControlOptions& options,
                                         std::function<double()> learning_rate) {
  if (options.log_loss_every_n_iters == 0) return nullptr;
  return std::make_unique<StepLogHook>(options.log_loss_every_n_iters, std::move(learning_rate));
}

}  // namespace dimred::stage1
