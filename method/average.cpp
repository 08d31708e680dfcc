#include "method/average.h"

#include <algorithm>

namespace dimred::method {

std::optional<double> share_of_next(const AverageOptions& options,
                                    std::int64_t count,
                                    double progress) {
  using enum AverageKind;
  if (options.kind == none) return std::nullopt;
  if (options.kind != schedule_free && progress < options.from) return std::nullopt;
  if (count == 0) return 1.0;
  const auto n = static_cast<double>(count);
  if (options.kind != ema) return 1 / (n + 1);
  return 1 - (options.warmup ? std::min(options.decay, (1 + n) / (10 + n)) : options.decay);
}

bool depends_on_length(const AverageOptions& options) {
  const bool chooses = options.kind == AverageKind::uniform || options.kind == AverageKind::ema;
  return chooses && options.from > 0;
}

const char* name(AverageKind kind) { return kind == AverageKind::ema ? "ema" : "mean"; }

}  // namespace dimred::method
