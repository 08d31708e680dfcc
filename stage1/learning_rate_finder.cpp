#include "stage1/learning_rate_finder.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>

#include "engine/input/batches.h"
#include "stage1/step.h"
#include "support/errors.h"

namespace dimred::stage1 {
namespace {

constexpr double smoothing = 0.98;
constexpr double divergence = 4;
constexpr std::int64_t left_out = 5;

/// The points so far, their smoothed loss, and whether it has grown too large.
class Sweep {
 public:
  /// False when this was the last.
  bool add(double rate, double loss) {
    if (!std::isfinite(loss)) return false;
    sum_ = smoothing * sum_ + loss;
    weight_ = smoothing * weight_ + 1;
    const double smoothed = sum_ / weight_;
    points_.push_back({rate, loss, smoothed});
    least_ = std::min(least_, smoothed);
    return smoothed <= divergence * least_;
  }
  std::vector<FinderPoint>& points() { return points_; }

 private:
  std::vector<FinderPoint> points_;
  double sum_ = 0, weight_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
};

double rate_of(const FinderOptions& options, std::int64_t step) {
  const double part = static_cast<double>(step) / (options.steps - 1);
  return options.start_rate * std::pow(options.end_rate / options.start_rate, part);
}

}  // namespace

void validate(const FinderOptions& options) {
  require(options.start_rate > 0,
          "[find_learning_rate] start_rate needs to be > 0, received {}",
          options.start_rate);
  require(options.end_rate > options.start_rate,
          "[find_learning_rate] end_rate needs to be more than start_rate = {}, received {}",
          options.start_rate,
          options.end_rate);
  require(options.steps >= 20,
          "[find_learning_rate] steps needs to be >= 20, received {}",
          options.steps);
}

Suggestion suggest(const std::vector<FinderPoint>& points, std::int64_t steps) {
  const auto first = steps / 10, last = std::ssize(points) - left_out;
  require_environment(last - first >= 2,
                      "[find_learning_rate] the loss grew too fast (after {} of {} steps), so no "
                      "rate can be suggested; a lower start_rate or more steps may help",
                      points.size(),
                      steps);
  const auto at = [&](std::int64_t i) { return points[i]; };
  Suggestion found;
  double least = std::numeric_limits<double>::infinity(), slope = least;
  for (auto i = first; i < last; ++i) {
    if (at(i).smoothed < least) {
      least = at(i).smoothed;
      found.minimum = at(i).learning_rate;
    }
    if (i + 1 == last) break;
    const double change = (at(i + 1).smoothed - at(i).smoothed) /
                          std::log(at(i + 1).learning_rate / at(i).learning_rate);
    if (change < slope) {
      slope = change;
      found.steepest = at(i).learning_rate;
    }
  }
  return found;
}

std::vector<FinderPoint> sweep(engine::Setup& setup,
                               const FinderOptions& options,
                               const optimizers::OptimizerOptions& optimizer,
                               Console& console) {
  validate(options);
  Descent descent(setup, optimizer, engine::BucketOptions{});
  Sweep sweep;
  bool going_on = true;
  std::int64_t done = 0;
  for (std::int64_t epoch = 0; going_on && done < options.steps; ++epoch) {
    const auto batches = engine::training_batches(setup, epoch);
    for (std::int64_t step = 0; going_on && done < options.steps; ++step, ++done) {
      auto batch = batches->next();
      if (!batch) break;
      const double rate = rate_of(options, done);
      batch->key = {epoch, step};
      const auto result = descend(descent, *batch, rate, done + 1);
      batches->recycle(std::move(*batch));
      going_on = sweep.add(rate, result.mean_loss());
      console.progress({.label = "learning rates", .done = done + 1, .total = options.steps});
    }
  }
  console.clear();
  return std::move(sweep.points());
}

std::string to_csv(const std::vector<FinderPoint>& points) {
  std::ostringstream out;
  out << "step,learning_rate,loss,smoothed_loss\n" << std::setprecision(9);
  std::int64_t step = 0;
  for (const auto& point : points)
    out << ++step << ',' << point.learning_rate << ',' << point.loss << ',' << point.smoothed
        << '\n';
  return out.str();
}

}  // namespace dimred::stage1
