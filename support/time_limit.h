#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace dimred {

/// For work that nothing can interrupt: when it is still under way after `seconds`, `on_overrun` is
/// called, once, in another thread. That thread ends with this object.
class TimeLimit {
 public:
  TimeLimit(double seconds, std::function<void()> on_overrun);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread clock_;
};

}  // namespace dimred
