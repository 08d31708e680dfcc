#include "run/scores.h"

#include <cstdint>

#include "engine/evaluate.h"

namespace dimred::run {
namespace {

/// Tells of bad samples when there are others than at the last time.
void warn(const engine::Score& score,
          const char* set,
          std::int64_t& count,
          const engine::Setup& setup,
          Console& console) {
  const bool speaks = setup.communicator->rank() == 0;
  const bool news = score.bad != count && score.bad > 0;
  count = score.bad;
  if (speaks && news) console.warn(engine::bad_text(score, set));
}

}  // namespace

void add_scores(engine::Setup& setup, CurveRow& row, Console& console) {
  auto& report = setup.data.report;
  if (setup.data.validation) {
    const auto score = engine::evaluate(setup, *setup.data.validation);
    row.validation_loss = score.loss;
    row.validation_accuracy = score.accuracy;
    warn(score, "validation", report.bad_validation_samples, setup, console);
  }
  if (!setup.data.test) return;
  const auto score = engine::evaluate(setup, *setup.data.test);
  row.test_loss = score.loss;
  row.test_accuracy = score.accuracy;
  warn(score, "test", report.bad_test_samples, setup, console);
}

}  // namespace dimred::run
