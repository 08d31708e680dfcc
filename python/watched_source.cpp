#include "python/watched_source.h"

#include <algorithm>
#include <vector>

namespace dimred::python {

void WatchedSource::count(std::int64_t values) const {
  if (stopped_) throw Interrupted();
  values_ += values;
}

double WatchedSource::fraction() const {
  return std::min(1.0,
                  static_cast<double>(values_) / (2.0 * static_cast<double>(rows() * columns())));
}

void WatchedSource::read_tile(std::int64_t begin,
                              std::int64_t width,
                              float* out,
                              std::int64_t stride) const {
  count(rows() * width);
  source_.read_tile(begin, width, out, stride);
  if (mean_.empty()) return;
  std::vector<double> sums(width);
  for (std::int64_t i = 0; i < rows(); ++i) {
    for (std::int64_t c = 0; c < width; ++c) sums[c] += out[i * stride + c];
  }
  for (std::int64_t c = 0; c < width; ++c) {
    mean_[begin + c] = static_cast<float>(sums[c] / static_cast<double>(rows()));
  }
}

}  // namespace dimred::python
