#include "commands/byte_progress.h"

#include <utility>

#include "support/formatted.h"
#include "support/stopwatch.h"

namespace dimred::commands {

ByteProgress::Say byte_progress(Console& console, std::string what) {
  constexpr double short_time = 2;  // seconds
  return [&console, what = std::move(what), watch = Stopwatch()](std::int64_t done,
                                                                 std::int64_t total) {
    const auto seconds = watch.seconds();
    if (seconds < short_time || done == 0) return;
    const auto left = static_cast<double>(total - done) / static_cast<double>(done);
    console.progress({.label = formatted("{} {} of {}", what, bytes_text(done), bytes_text(total)),
                      .done = done,
                      .total = total,
                      .seconds_left = seconds * left});
  };
}

}  // namespace dimred::commands
