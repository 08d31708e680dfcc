#include "checkpoints/background_writer.h"

#include <chrono>
#include <utility>

#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

/// Adds the seconds of its own life to a counter.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

BackgroundWriter::BackgroundWriter(std::size_t max_pending) : max_pending_(max_pending) {
  require(max_pending >= 1, "BackgroundWriter", "needs max_pending >= 1, received 0");
  thread_ = std::thread(&BackgroundWriter::run, this);
}

BackgroundWriter::~BackgroundWriter() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundWriter::submit(std::function<void()> job) {
  const Stopwatch stopwatch(seconds_blocked_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.size() < max_pending_ || failure_; });
  rethrow();
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

void BackgroundWriter::wait() {
  const Stopwatch stopwatch(seconds_blocked_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !busy_; });
  rethrow();
}

void BackgroundWriter::rethrow() {
  if (failure_) std::rethrow_exception(failure_);
}

void BackgroundWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    changed_.notify_all();
    std::exception_ptr failure;
    try {
      job();
    } catch (...) {
      failure = std::current_exception();
    }
    job = nullptr;  // what the job holds is freed without the lock
    lock.lock();
    busy_ = false;
    if (failure) {
      failure_ = failure;
      jobs_.clear();
    }
    changed_.notify_all();
  }
}

}  // namespace dimred::checkpoints
