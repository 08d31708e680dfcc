#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace dimred {

/// For work that nothing can interrupt: when it is still under way after `seconds`, `on_overrun` is
/// called, once, in another thread. That thread ends with this object.
class TimeLimit {
 public:
  TimeLimit(double seconds, std::function<void()> on_overrun)
      : clock_([this, seconds, on_overrun = std::move(on_overrun)] {
          std::unique_lock lock(mutex_);
          const bool in_time = changed_.wait_for(
              lock, std::chrono::duration<double>(seconds), [this] { return done_; });
          lock.unlock();
          if (!in_time) on_overrun();
        }) {}
  ~TimeLimit() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
  }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::jthread clock_;  // the last: it uses the others
};

}  // namespace dimred
