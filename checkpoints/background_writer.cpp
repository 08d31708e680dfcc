#include "checkpoints/background_writer.h"

#include <utility>

#include "support/errors.h"

namespace dimred::checkpoints {
BackgroundWriter::BackgroundWriter(std::size_t max_pending) : max_pending_(max_pending) {
  require(max_pending >= 1, "[BackgroundWriter] needs max_pending >= 1, received 0");
  thread_ = std::jthread([this] { run(); });
}

BackgroundWriter::~BackgroundWriter() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void BackgroundWriter::submit(std::function<void()> job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.size() < max_pending_ || failure_; });
  if (failure_) std::rethrow_exception(failure_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

void BackgroundWriter::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !busy_; });
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
