#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/file_lock.h"

namespace dimred::stores {

/// A file of a bounded cache, or what is there of one that is being fetched.
struct CachedFile {
  std::string key;
  std::int64_t bytes = 0;  // of one that is being fetched, all that it will have
  std::int64_t since = 0;  // when it came, in any unit
  bool fixed = false;      // it is being fetched
};

/// The keys to remove, so that `bytes` more fit in `room`: first the keys outside `wanted`, the
/// oldest first; if `urgent`, then the wanted ones, from the last one on. No more than are needed.
/// nullopt when that is not enough.
std::optional<std::vector<std::string>> evictions(const std::vector<CachedFile>& cached,
                                                  std::int64_t bytes,
                                                  std::int64_t room,
                                                  const std::vector<std::string>& wanted,
                                                  bool urgent);

/// Files that come and go within a bound of bytes, shared by the processes of this machine:
/// <folder>/<key>/shard for each that is here. A process that has a file open keeps it when the
/// file gives way. Which one is being fetched, and how many bytes it will have, stands beside it
/// under a lock, so the kernel ends a killed process's claim. Needs a file system with locks.
class ShardRoom {
 public:
  /// `room` in bytes. Creates the folder. Throws std::runtime_error.
  ShardRoom(std::filesystem::path folder, std::int64_t room);

  std::filesystem::path file(const std::string& key) const { return folder_ / key / "shard"; }
  std::int64_t room() const { return room_; }
  /// Removes a whole one; no error when there is none.
  void drop(const std::string& key) const { std::filesystem::remove(file(key)); }

  /// The right to fetch one file, for one thread of one process.
  class Fetch {
   public:
    Fetch(const ShardRoom& place, std::filesystem::path folder, std::unique_ptr<FileLock> lock);
    ~Fetch();
    Fetch(const Fetch&) = delete;
    Fetch& operator=(const Fetch&) = delete;

    /// Sets `bytes` aside; others give way as evictions() says. False where there is no room now.
    bool reserve(std::int64_t bytes, const std::vector<std::string>& wanted, bool urgent);
    /// The place to write; files beside it named `fresh`.* are removed with it.
    std::filesystem::path fresh() const;
    /// `fresh` is whole: it appears under its name.
    void commit();

   private:
    const ShardRoom& place_;
    std::filesystem::path folder_;  // of the one file
    std::unique_ptr<FileLock> lock_;
  };

  /// nullptr while another thread or process fetches it.
  std::unique_ptr<Fetch> try_fetch(const std::string& key) const;

 private:
  std::filesystem::path folder_;
  std::int64_t room_;
};

}  // namespace dimred::stores
