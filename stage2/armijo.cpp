#include "stage2/armijo.h"

#include <cmath>

#include "support/errors.h"

namespace dimred::stage2 {

void validate(const ArmijoOptions& options) {
  constexpr auto place = "stage2::armijo";
  require(options.rho > 0 && options.rho < 1, place, "rho needs (0, 1), received ", options.rho);
  require(options.sigma > 0 && options.sigma < 1,
          place,
          "sigma needs (0, 1), received ",
          options.sigma);
  require(options.trials >= 1, place, "trials needs >= 1, received ", options.trials);
}

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
    const double bound = start_loss + options.sigma * t * slope;
    if (std::isfinite(result.loss) &&
        (options.strict ? result.loss < bound : result.loss <= bound)) {
      result.outcome = SearchOutcome::accepted;
      return result;
    }
    t *= options.rho;
  }
  return result;
}

}  // namespace dimred::stage2
