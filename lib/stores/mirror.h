#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "stores/upload.h"

namespace dimred::stores {

/// The work of a Mirror so far.
struct MirrorReport {
  std::int64_t uploads = 0;     // whole ones
  std::int64_t failures = 0;    // attempts that were not
  std::int64_t superseded = 0;  // checkpoints that a newer one overtook before their turn
  std::string last_error;       // of the last failure; empty once an upload succeeded after it
  std::string last_state;       // newest checkpoint that is at the remote place
};

/// Sends a run folder to a URL while the run goes on, each time that it has a new checkpoint: one
/// thread, one upload at a time, always of the newest. It looks at the folder, and so costs the
/// training nothing but its share of the disk. The files that it sends are set aside by hard links
/// first, so that the run may go on deleting and writing. A failure is said once on standard error,
/// counted, and tried again with growing waits.
class Mirror {
 public:
  Mirror(std::filesystem::path run, Url url, StoreOptions options, std::filesystem::path staging);
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  /// Ends; an upload that is under way is broken off, as what was sent is of use to the next one.
  void stop();
  MirrorReport report() const;
  /// Digests of what it has sent; after stop().
  DigestMemory& memory() { return memory_; }

 private:
  void work();
  void send(const std::string& state);
  bool pause(double seconds);  // true: to stop

  std::filesystem::path run_;
  Url url_;
  StoreOptions options_;
  std::filesystem::path staging_;
  std::string first_;  // the newest state when this began
  DigestMemory memory_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  MirrorReport report_;
  std::atomic<bool> ended_ = false;  // also for the stores
  std::jthread thread_;              // the last: it uses the others
};

/// Name of the newest whole checkpoint of a run folder; empty when there is none. Throws
/// std::filesystem::filesystem_error.
std::string newest_state(const std::filesystem::path& run);

/// A consistent copy of a run folder with `state` as its only checkpoint: hard links of what is
/// never written again under its name, copies of what grows. False when the state is gone by now.
bool stage(const std::filesystem::path& run,
           const std::string& state,
           const std::filesystem::path& staging);

}  // namespace dimred::stores
