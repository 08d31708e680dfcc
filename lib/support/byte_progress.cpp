#include "support/byte_progress.h"

#include <stdexcept>

namespace dimred {

double ByteProgress::fraction() const {
  const auto all = total.load();
  return all > 0 ? static_cast<double>(done.load()) / static_cast<double>(all) : 0;
}

void expect_bytes(ByteProgress* progress, std::int64_t bytes) {
  if (progress != nullptr) progress->total += bytes;
}

void add_done(ByteProgress* progress, std::int64_t bytes) {
  if (progress == nullptr) return;
  progress->done += bytes;
  if (!progress->say) return;
  const std::unique_lock lock(progress->saying, std::try_to_lock);
  if (lock) progress->say(progress->done, progress->total);
}

void require_running(const ByteProgress* progress, const char* stopped) {
  if (progress != nullptr && progress->stop) throw std::runtime_error(stopped);
}

}  // namespace dimred
