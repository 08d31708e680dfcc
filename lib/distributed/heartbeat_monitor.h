#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace c10d {
class Store;  // its header is expensive, and all trainers include this one
}

namespace dimred::distributed {

/// A failure that ends all ranks.
struct Failure {
  int rank = 0;      // the one that failed; -1: none of them
  std::string text;  // why
  int exit_code = 1;
  int reporting_rank = 0;  // the rank that reports it
  bool silent = false;     // it gives no sign of life, dead or stopped
};

struct HeartbeatOptions {
  int rank = 0;
  int size = 1;
  double timeout = 6;               // seconds without a sign of life that are a death; 0: never
  bool reports_lost_store = false;  // this rank reports it when the store is gone
  bool agent_store = false;         // torchrun's agent keeps the store, else rank 0
};

/// Watches the ranks' heartbeats through the store: each rank sends one every second (a
/// quarter of a shorter timeout), rank 0 looks
/// after all the others and they after rank 0. A rank that died or was stopped (its process, not
/// its sockets) is noticed after `timeout` seconds and two periods, whatever the main threads are
/// doing; no clocks are compared. Cost: three small requests a second and rank; rank 0 reads R
/// counters.
class HeartbeatMonitor {
 public:
  /// `store` is used by the monitor alone. `on_failure` runs in the monitor's thread. Throws
  /// std::runtime_error where its threads cannot start.
  HeartbeatMonitor(c10::intrusive_ptr<c10d::Store> store,
                   const HeartbeatOptions& options,
                   std::function<void(const Failure&)> on_failure);
  /// Without leave() the others will find this rank silent.
  ~HeartbeatMonitor();
  HeartbeatMonitor(const HeartbeatMonitor&) = delete;
  HeartbeatMonitor& operator=(const HeartbeatMonitor&) = delete;

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
  struct Heartbeat {
    std::int64_t beats = -1;
    double since = 0;  // of this rank's clock, when `beats` changed
  };

  void stop();
  void monitor_ranks();
  void check_store();
  void send_heartbeat();
  Failure store_failure(const std::string& what) const;
  void check_rank(int other, std::int64_t beats);
  std::optional<Failure> published();
  void notice(const Failure& failure);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, size_;
  bool reports_lost_store_, agent_store_;
  std::chrono::duration<double> period_;
  std::atomic<double> timeout_;
  std::function<void(const Failure&)> on_failure_;
  std::vector<Heartbeat> heartbeats_;
  std::atomic<double> last_round_ = 0;
  std::timed_mutex store_mutex_;  // one request at a time, also of report()
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::optional<Failure> failure_;
  std::vector<std::jthread> threads_;  // the last: they use the others
};

}  // namespace dimred::distributed
