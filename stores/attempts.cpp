#include "stores/attempts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "support/errors.h"

namespace dimred::stores {
namespace {

/// Ends early with Stopped.
void pause(const StoreOptions& options, double seconds) {
  using std::chrono::duration;
  const auto end = std::chrono::steady_clock::now() + duration<double>(seconds);
  constexpr auto part = duration<double>(.1);
  while (true) {
    if (is_stopped(options)) throw Stopped("[stores] a wait between attempts was stopped");
    const duration<double> left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) return;
    std::this_thread::sleep_for(std::min(left, part));
  }
}

}  // namespace

double wait_before_next(const StoreOptions& options, std::int64_t made, double jitter) {
  const auto doubled =
      options.first_wait * std::exp2(static_cast<double>(std::min<std::int64_t>(made, 64) - 1));
  return std::min(doubled, options.longest_wait) * jitter;
}

void with_attempts(const StoreOptions& options,
                   const std::function<void()>& work,
                   const std::function<bool()>& moved) {
  thread_local std::minstd_rand generator(std::random_device{}());
  std::int64_t total = 0;
  for (std::int64_t made = 1;; ++made) {
    try {
      ++total;
      return work();
    } catch (const StoreError& error) {
      if (!error.passing()) throw;
      if (moved && moved()) made = 1;
      if (made >= options.attempts && total == 1) throw;
      if (made >= options.attempts)
        throw StoreError(formatted("{} (after {} attempts)", error.what(), total), true);
    }
    const double jitter = std::uniform_real_distribution(.5, 1.)(generator);
    pause(options, wait_before_next(options, made, jitter));
  }
}

}  // namespace dimred::stores
