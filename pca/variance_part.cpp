#include "pca/variance_part.h"

#include <algorithm>
#include <limits>

namespace dimred::pca {

std::int64_t count_directions(std::span<const double> values, double part) {
  const double rounding =
      static_cast<double>(values.size()) * std::numeric_limits<double>::epsilon();
  const double floor = std::max(rounding, part) * std::max(0.0, values.front());
  return std::ranges::count_if(values, [floor](double value) { return value > floor; });
}

std::int64_t count_for_part(std::span<const double> values, double part) {
  double total = 0;
  for (const double value : values) total += std::max(0.0, value);
  const auto most = count_directions(values);
  std::int64_t count = 1;
  for (double reached = values.front() / total; count < most && reached <= part; ++count) {
    reached += values[static_cast<std::size_t>(count)] / total;
  }
  return count;
}

}  // namespace dimred::pca
