#include "stage1/chance_warning.h"

#include <cmath>
#include <utility>

#include "support/formatted.h"

namespace dimred::stage1 {
namespace {

/// Whether guessing among `classes` would be right as often in one of a thousand tries: the share
/// of n samples has the standard deviation sqrt(p (1 - p) / n) about p = 1 / classes.
bool is_chance(double accuracy, double classes, double samples) {
  constexpr double deviations = 3;
  const double p = 1 / classes;
  return accuracy <= p + deviations * std::sqrt(p * (1 - p) / samples);
}

class ChanceWarning final : public run::Hook {
 public:
  explicit ChanceWarning(double learning_rate) : learning_rate_(learning_rate) {}

  void after_step(const run::RunView& /*run*/,
                  const run::StepSummary& step,
                  const models::Minibatch& /*batch*/) override {
    sums_.add(step.result);
  }

  void after_epoch(const run::RunView& run, const run::CurveRow& row) override {
    const auto epoch = std::exchange(sums_, {});
    const auto& data = run.setup->data;
    const auto classes = data.train->classes();
    if (said_ || classes < 2) return;
    const auto accuracy = row.test_accuracy         ? *row.test_accuracy
                          : row.validation_accuracy ? *row.validation_accuracy
                                                    : epoch.accuracy();
    const auto samples = row.test_accuracy         ? data.test->size()
                         : row.validation_accuracy ? data.validation->size()
                                                   : epoch.sample_count;
    if (!is_chance(accuracy, classes, samples)) return;
    said_ = true;
    run.console->line(
        formatted("epoch {} ended at {} %, no better than guessing among {} classes; if this "
                  "continues, lower --learning_rate (now {}) or add --warmup_epochs",
                  run.position->epoch,
                  decimal_text(100 * accuracy, 2),
                  classes,
                  learning_rate_));
  }

 private:
  double learning_rate_;
  engine::BatchResult sums_;  // of the epoch so far, or of its part since a resume
  bool said_ = false;
};

}  // namespace

std::unique_ptr<run::Hook> make_chance_warning(double learning_rate) {
  return std::make_unique<ChanceWarning>(learning_rate);
}

}  // namespace dimred::stage1
