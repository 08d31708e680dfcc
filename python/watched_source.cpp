#include "python/watched_source.h"

#include <algorithm>

namespace dimred::python {

void WatchedSource::count(std::int64_t values) const {
  if (stopped_) throw Interrupted();
  values_ += values;
}

double WatchedSource::fraction() const {
  return std::min(1.0,
                  static_cast<double>(values_) / (2.0 * static_cast<double>(rows() * columns())));
}

}  // namespace dimred::python
