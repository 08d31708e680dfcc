#include <algorithm>
#include <cmath>

#include "schedules/families.h"

namespace dimred::schedules::families {

/// The rate at step i is learning_rate * sqrt(w / i) after a warm-up of w steps (at least 1). It
/// does not depend on the run's length, so a run can be continued, or annealed from any epoch.
/// Source: Vaswani et al. 2017, section 5.3, with learning_rate at the end of the warm-up.
Family inverse_sqrt() {
  return {.rate =
              [](const ScheduleOptions& options, const Times& times) {
                const double warmup = std::max(times.warmup, 1.0);
                return options.learning_rate * std::sqrt(warmup / std::max(times.step, warmup));
              },
          .depends_on_length = false};
}

}  // namespace dimred::schedules::families
