#include "support/time_limit.h"

#include <chrono>
#include <utility>

namespace dimred {

TimeLimit::TimeLimit(double seconds, std::function<void()> on_overrun)
    : clock_([this, seconds, on_overrun = std::move(on_overrun)] {
        std::unique_lock lock(mutex_);
        const bool in_time = changed_.wait_for(
            lock, std::chrono::duration<double>(seconds), [this] { return done_; });
        lock.unlock();
        if (!in_time) on_overrun();
      }) {}

TimeLimit::~TimeLimit() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  clock_.join();
}

}  // namespace dimred
