#include "support/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "support/errors.h"
#include "support/text.h"

namespace dimred {

void in_parallel(std::int64_t count,
                 std::int64_t threads,
                 const std::function<void(std::int64_t)>& work) {
  std::atomic<std::int64_t> next = 0;
  std::exception_ptr failure;
  auto failed = count;
  std::mutex mutex;  // guards failure and failed
  const auto run = [&] {
    for (auto i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (i < failed) failure = std::current_exception();
        failed = std::min(failed, i);
        next = count;
      }
  };
  auto others = start_threads(
      "threads",
      std::min(threads, count) - 1,
      [&](std::int64_t /*i*/) { run(); },
      [&] { next = count; });
  run();
  others.clear();
  if (failure) std::rethrow_exception(failure);
}

std::vector<std::jthread> start_threads(const char* scope,
                                        std::int64_t count,
                                        const std::function<void(std::int64_t)>& work,
                                        const std::function<void()>& stop) {
  std::vector<std::jthread> threads;
  try {
    while (std::ssize(threads) < count) threads.emplace_back(work, std::ssize(threads));
  } catch (const std::exception& error) {
    stop();
    const auto started = std::ssize(threads);
    threads.clear();
    fail_environment(
        "[{}] cannot start thread {} of {} ({}); perhaps this machine allows fewer threads",
        scope,
        started + 1,
        count,
        error.what());
  }
  return threads;
}

void share_cores() {
  if (environment_text("OMP_WAIT_POLICY").empty())
    ::setenv("GOMP_SPINCOUNT", openmp_spin_count, /*overwrite=*/0);
}

std::int64_t available_threads() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

}  // namespace dimred
