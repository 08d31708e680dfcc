#include "data/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "support/errors.h"

namespace dimred::data {

void in_parallel(std::size_t count,
                 std::size_t threads,
                 const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
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
    while (others.size() + 1 < wanted) others.emplace_back(run);
  } catch (const std::exception& error) {
    next = count;
    cannot_start("data", std::ssize(others) + 1, static_cast<std::int64_t>(wanted) - 1, error);
  }
  run();
  others.clear();
  if (failure) std::rethrow_exception(failure);
}

void cannot_start(const char* place,
                  std::int64_t thread,
                  std::int64_t threads,
                  const std::exception& reason) {
  throw std::runtime_error(
      formatted("[{}] cannot start thread {} of {} ({}); fewer threads may be allowed here",
                place,
                thread,
                threads,
                reason.what()));
}

}  // namespace dimred::data
