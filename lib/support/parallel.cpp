#include "support/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "support/errors.h"

namespace dimred {

void in_parallel(std::int64_t count,
                 std::int64_t threads,
                 const std::function<void(std::int64_t)>& work) {
  std::atomic<std::int64_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;  // guards failure
  const auto run = [&] {
    try {
      for (auto i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::jthread> others;
  const auto wanted = std::min(threads, count);
  try {
    while (std::ssize(others) + 1 < wanted) others.emplace_back(run);
  } catch (const std::exception& error) {
    next = count;
    cannot_start("threads", std::ssize(others) + 1, wanted - 1, error);
  }
  run();
  others.clear();
  if (failure) std::rethrow_exception(failure);
}

void cannot_start(const char* place,
                  std::int64_t thread,
                  std::int64_t threads,
                  const std::exception& reason) {
  fail_environment("[{}] cannot start thread {} of {} ({}); fewer threads may be allowed here",
                   place,
                   thread,
                   threads,
                   reason.what());
}

std::int64_t available_threads() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

}  // namespace dimred
