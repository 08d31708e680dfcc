#include "method/line_search.h"

#include <cmath>

namespace dimred::method {

const char* name(SearchOutcome outcome) {
  switch (outcome) {
    case SearchOutcome::accepted:
      return "accepted";
    case SearchOutcome::no_decrease:
      return "no_decrease";
    case SearchOutcome::ascent_direction:
      return "ascent_direction";
  }
  return "unknown";
}

SearchResult armijo(const std::function<double(double)>& loss_at,
                    double start_loss,
                    double slope,
                    const ArmijoOptions& options) {
  SearchResult result{.loss = start_loss};
  if (!(slope < 0)) {  // also NaN
    result.outcome = SearchOutcome::ascent_direction;
    return result;
  }
  double t = 1;
  while (result.trials < options.trials) {
    result.step_size = t;
    result.loss = loss_at(t);
    ++result.trials;
    const double bound = start_loss + options.sufficient_decrease * t * slope;
    if (std::isfinite(result.loss) &&
        (options.strict ? result.loss < bound : result.loss <= bound)) {
      result.outcome = SearchOutcome::accepted;
      return result;
    }
    t *= options.contraction;
  }
  return result;
}

}  // namespace dimred::method
