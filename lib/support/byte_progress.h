#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

// Progress of a work on many bytes, which several threads may share.
namespace dimred {

/// Bytes of a work, done and in all, for those who wait.
struct ByteProgress {
  using Say = std::function<void(std::int64_t done, std::int64_t total)>;

  Say say = {};  // called now and then, by one thread at a time; empty: nobody is called
  std::atomic<std::int64_t> total{0};
  std::atomic<std::int64_t> done{0};
  std::atomic<bool> stop{false};  // set by another thread: the work ends soon, by an exception
  std::mutex saying = {};         // held by the thread that calls `say`

  /// Returns the part that is done, in [0, 1].
  double fraction() const;
};

/// Adds bytes that the work will do; null: nobody looks.
void expect_bytes(ByteProgress* progress, std::int64_t bytes);

/// Adds bytes that are done, and says so unless another thread does.
void add_done(ByteProgress* progress, std::int64_t bytes);

/// Throws std::runtime_error(`stopped`) where somebody wants the work to end.
void require_running(const ByteProgress* progress, const char* stopped);

}  // namespace dimred
