#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "stores/download.h"
#include "stores/shard_room.h"

namespace dimred::stores {

struct ShardCacheOptions {
  StoreOptions store;
  std::filesystem::path folder;  // on this machine, shared by its processes
  std::int64_t room = 0;         // bytes that all files may take there
  std::int64_t fetches = 4;      // at a time, of this process, >= 1
};

/// Files of a remote place, held here in part: files that are waited for and, in the background,
/// the files announced as next. Each comes as bring_files() brings it, by one process of the
/// machine.
class ShardCache {
 public:
  /// One for each thread, with options that end what it does with the cache.
  using OpenStore = std::function<std::unique_ptr<Store>(const StoreOptions&)>;
  /// A file, and the bytes that it will take here.
  struct Need {
    std::size_t shard = 0;  // of those given
    std::int64_t bytes = 0;
  };
  /// Gets each file that has come, before it has its name; may change it in place, and throw.
  using Arrival = std::function<void(std::size_t shard, const std::filesystem::path& file)>;

  ShardCache(std::vector<Found> shards, OpenStore open, ShardCacheOptions options);
  /// Ends what is being fetched.
  ~ShardCache();
  ShardCache(const ShardCache&) = delete;
  ShardCache& operator=(const ShardCache&) = delete;

  const std::vector<Found>& shards() const { return shards_; }
  std::int64_t room() const { return room_.room(); }
  std::int64_t fetches() const { return options_.fetches; }

  void on_arrival(Arrival arrival);
  /// Brings these in this order as far as there is room, where they stay. A later call replaces an
  /// earlier one. A file that fails is left until somebody waits for it, or for a while.
  void want(std::vector<Need> needs);
  /// The file here; waits for it. It may give way as soon as this returns. Throws what its fetch
  /// threw; StopRequested when `stopped` (asked now and then) says so.
  std::filesystem::path get(const Need& need, const std::function<bool()>& stopped);

  /// The file here is not what it has to be: it is as if it had not come. A process that has it
  /// open keeps it.
  void drop(std::size_t shard);

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiter {
    Need need;
    bool without_room = false;        // at its last attempt
    std::exception_ptr failure = {};  // of its file since it came
  };
  struct Job {
    Need need;
    bool urgent = false;
  };

  enum class Outcome { here, elsewhere, no_room };

  void stop();
  void work() noexcept;
  std::optional<Job> next_job();
  bool is_startable(std::size_t shard) const;
  bool is_here(std::size_t shard) const;
  Outcome fetch(Store& store, const Job& job);
  void close_job(const Job& job, Outcome outcome, const std::exception_ptr& failure);

  std::vector<Found> shards_;
  std::vector<std::string> keys_;  // of the room, one a shard
  OpenStore open_;
  ShardCacheOptions options_;
  ShardRoom room_;
  std::atomic<bool> ended_ = false;  // also for the stores
  std::mutex mutex_;                 // guards what follows, up to the threads
  std::condition_variable wake_, changed_;
  Arrival arrival_;
  std::vector<Need> wanted_;
  std::size_t first_wanted_ = 0;  // those before it were here
  std::list<Waiter> waiters_;
  std::vector<Clock::time_point> not_before_;  // each may be tried
  std::vector<std::jthread> threads_;          // the last: they use the others
};

}  // namespace dimred::stores
