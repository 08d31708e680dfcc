#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace dimred::checkpoints {

/// Runs jobs one after another in one background thread, so that saves cost the trainer one copy.
/// A job that throws stops the queue; the exception reaches the trainer at its next call.
class BackgroundWriter {
 public:
  /// max_pending: submit() waits while this many jobs are queued (bounds memory).
  explicit BackgroundWriter(std::size_t max_pending = 4);
  ~BackgroundWriter();  // finishes the queue; swallows errors (call wait() to see them)
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  void submit(std::function<void()> job);
  /// Waits until the queue is empty; rethrows the first failure.
  void wait();

 private:
  void run();

  std::size_t max_pending_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool busy_ = false;
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::jthread thread_;  // the last: it uses the others
};

}  // namespace dimred::checkpoints
