#include "pca/ordered_sum.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "support/parallel.h"

namespace dimred::pca {
namespace {

/// Adds vectors in block order, whatever the order they come in.
class Accumulator {
 public:
  Accumulator(std::size_t size, std::size_t slots) : total_(size), parked_(slots), full_(slots) {}

  /// Takes `partial` (and leaves another vector in it); waits while too many are parked.
  /// False when stopped.
  bool add(std::int64_t block, std::vector<double>& partial) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || block < next_ + std::ssize(parked_); });
    if (stopped_) return false;
    parked_[slot(block)].swap(partial);
    full_[slot(block)] = true;
    if (block != next_) return true;
    for (; full_[slot(next_)]; ++next_) {
      full_[slot(next_)] = false;
      const auto& ready = parked_[slot(next_)];
      for (std::size_t i = 0; i < total_.size(); ++i) total_[i] += ready[i];
    }
    changed_.notify_all();
    return true;
  }

  void stop(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    stopped_ = true;
    changed_.notify_all();
  }

  std::vector<double> finish() {
    if (failure_) std::rethrow_exception(failure_);
    return std::move(total_);
  }

 private:
  std::size_t slot(std::int64_t block) const { return block % parked_.size(); }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<double> total_;
  std::vector<std::vector<double>> parked_;
  std::vector<bool> full_;
  std::int64_t next_ = 0;
  bool stopped_ = false;
  std::exception_ptr failure_;
};

}  // namespace

std::vector<double> ordered_sum(std::int64_t blocks,
                                std::int64_t threads,
                                std::size_t size,
                                const std::function<BlockWork()>& make_work) {
  threads = std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(1, blocks));
  Accumulator accumulator(size, 2 * threads);
  std::atomic<std::int64_t> claimed = 0;
  in_parallel(threads, threads, [&](std::int64_t) {
    try {
      const auto work = make_work();
      std::vector<double> partial;
      for (std::int64_t block = claimed++; block < blocks; block = claimed++) {
        partial.assign(size, 0.0);
        work(block, partial);
        if (!accumulator.add(block, partial)) return;
      }
    } catch (...) {
      accumulator.stop(std::current_exception());
    }
  });
  return accumulator.finish();
}

}  // namespace dimred::pca
