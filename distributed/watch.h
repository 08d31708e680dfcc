#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace dimred::distributed {

/// What ends all ranks.
struct Failure {
  int rank = 0;      // the one that failed
  std::string text;  // why
  int exit_code = 1;
  int speaker = 0;  // the rank that says so
};

/// Watches over the ranks through the store: each gives a sign of life every second, rank 0 looks
/// after all the others and they after rank 0. A rank that died or was stopped (its process, not
/// its sockets) is noticed after `timeout` seconds and two periods, whatever the main threads are
/// doing; no clocks are compared. Cost: three small requests a second and rank; rank 0 reads R
/// counters.
class Watch {
 public:
  /// `store` is used by the watch alone. `on_failure` runs in the watch's thread.
  Watch(c10::intrusive_ptr<c10d::Store> store,
        int rank,
        int size,
        double timeout,
        std::function<void(const Failure&)> on_failure);
  /// Without leave() the others will find this rank silent.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Tells the others that this rank has failed; the first failure stands. Returns the one that
  /// stands, or this one when the store is gone.
  Failure report(const Failure& failure);

  /// Something is wrong already (a collective has failed): three seconds of silence are enough.
  void suspect();

  /// The failure that stands, waiting for one to show up to `seconds`; nullopt when none has.
  std::optional<Failure> failure(double seconds);

  /// This rank is done: its silence is no death any more. Stops watching.
  void leave();

 private:
  struct Pulse {
    std::int64_t beats = -1;
    double since = 0;  // of this rank's clock, when `beats` changed
  };

  void keep_watch();
  void look_after_the_store();
  void beat();
  void look_after(int other, std::int64_t beats);
  std::optional<Failure> published();
  void notice(const Failure& failure);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, size_;
  std::atomic<double> timeout_;
  std::function<void(const Failure&)> on_failure_;
  std::vector<Pulse> pulses_;
  std::atomic<double> last_round_ = 0;
  std::timed_mutex store_mutex_;  // one request at a time, also of report()
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::optional<Failure> failure_;
  std::thread watcher_, timer_;
};

}  // namespace dimred::distributed
