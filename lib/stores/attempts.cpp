#include "stores/attempts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

namespace dimred::stores {
namespace {

/// Ends early with StopRequested.
void pause(const StoreOptions& options, double seconds) {
  constexpr double part = 0.1;
  for (auto left = seconds;; left -= part) {
    if (is_stopped(options)) throw StopRequested("a wait between attempts was stopped");
    if (left <= 0) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, part)));
  }
}

}  // namespace

double wait_before_next(const StoreOptions& options, std::int64_t made, double jitter) {
  const auto doublings = static_cast<double>(std::min<std::int64_t>(made, 64) - 1);
  return std::min(options.first_wait * std::exp2(doublings), options.longest_wait) * jitter;
}

void with_attempts(const Store& store,
                   const std::function<void()>& work,
                   const std::function<std::int64_t()>& reached) {
  const auto& options = store.options();
  auto furthest = reached();
  thread_local std::minstd_rand generator(std::random_device{}());
  std::int64_t total = 0;
  for (std::int64_t made = 1;; ++made) {
    try {
      ++total;
      return work();
    } catch (const Passing& error) {
      if (const auto now = reached(); now > furthest) {
        furthest = now;
        made = 1;
      }
      if (made >= options.attempts && total == 1) throw;
      const auto text = std::string_view(error.what()).substr(StoreError::scope.size());
      if (made >= options.attempts) throw Passing("{} (after {} attempts)", text, total);
    }
    pause(options,
          wait_before_next(options, made, std::uniform_real_distribution(0.5, 1.)(generator)));
  }
}

}  // namespace dimred::stores
