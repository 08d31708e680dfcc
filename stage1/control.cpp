#include "stage1/control.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/errors.h"

namespace dimred::stage1 {

void validate(const ControlOptions& options) {
  require(options.stop_at_step >= 0,
          "[stage1] stop_at_step needs >= 0, received {}",
          options.stop_at_step);
  require(options.log_loss_every_n_iters >= 0,
          "[stage1] log_loss_every_n_iters needs >= 0, received {}",
          options.log_loss_every_n_iters);
  require(options.early_stopping_patience >= 0,
          "[stage1] early_stopping_patience needs >= 0, received {}",
          options.early_stopping_patience);
  require(options.early_stopping_min_delta >= 0,
          "[stage1] early_stopping_min_delta needs >= 0, received {}",
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

}  // namespace dimred::stage1
