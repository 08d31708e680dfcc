#include "stage1/control.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/errors.h"

namespace dimred::stage1 {

void validate(const ControlOptions& options) {
  constexpr auto place = "stage1";
  require(
      options.stop_at_step >= 0, place, "stop_at_step needs >= 0, received ", options.stop_at_step);
  require(options.log_loss_every_n_iters >= 0,
          place,
          "log_loss_every_n_iters needs >= 0, received ",
          options.log_loss_every_n_iters);
  require(options.early_stopping_patience >= 0,
          place,
          "early_stopping_patience needs >= 0, received ",
          options.early_stopping_patience);
  require(options.early_stopping_min_delta >= 0,
          place,
          "early_stopping_min_delta needs >= 0, received ",
          options.early_stopping_min_delta);
}

bool BestSoFar::add(double accuracy, double min_delta) {
  if (accuracy > reference_ + min_delta || reference_ < 0) {
    reference_ = accuracy;
    without_ = 0;
  } else {
    ++without_;
  }
  const bool best = accuracy > best_;
  best_ = std::max(best_, accuracy);
  return best;
}

nlohmann::json BestSoFar::to_json() const {
  return {{"best", best_}, {"reference", reference_}, {"without", without_}};
}

void BestSoFar::restore(const nlohmann::json& json) {
  best_ = json.at("best");
  reference_ = json.at("reference");
  without_ = json.at("without");
}

void StepLog::add(const training::BatchResult& result) {
  sums_.loss_sum += result.loss_sum;
  sums_.correct_count += result.correct_count;
  sums_.sample_count += result.sample_count;
  ++steps_;
}

std::string StepLog::line(std::int64_t step, double rate) {
  const double seconds = clock_.restart(),
               steps = static_cast<double>(std::max<std::int64_t>(1, steps_));
  std::ostringstream out;
  out << "step " << step << std::fixed << std::setprecision(4) << "  loss " << sums_.mean_loss()
      << std::setprecision(2) << "  accuracy " << 100 * sums_.accuracy() << " %  rate "
      << std::defaultfloat << std::setprecision(4) << rate << "  " << seconds / steps << " s/step  "
      << std::fixed << std::setprecision(0) << sums_.sample_count / seconds << " samples/s";
  sums_ = {};
  steps_ = 0;
  return out.str();
}

}  // namespace dimred::stage1
