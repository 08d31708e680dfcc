#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "support/file_lock.h"

namespace dimred::stores {

/// Files that come and go within a bound of bytes, shared by the processes of this machine:
/// <folder>/<key>/shard for each that is here. Who has a file open keeps it when it gives way.
/// Which one is being fetched, and how many bytes it will have, stands beside it under a lock, so
/// that the kernel ends the claim of a process that is killed. Needs a file system with locks.
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
    Fetch(const ShardRoom& place, std::string key, std::unique_ptr<FileLock> lock);
    ~Fetch();
    Fetch(const Fetch&) = delete;
    Fetch& operator=(const Fetch&) = delete;

    /// Sets `bytes` aside; others give way as evictions() says. False where there is no room now.
    bool reserve(std::int64_t bytes, const std::vector<std::string>& wanted, bool urgent);
    /// Where it is to be written; what lies beside it as `fresh`.* is removed with it.
    const std::filesystem::path& fresh() const { return fresh_; }
    /// `fresh` is whole: it appears under its name.
    void commit();

   private:
    const ShardRoom& place_;
    std::string key_;
    std::unique_ptr<FileLock> lock_;
    std::filesystem::path fresh_;
  };

  /// nullptr while another thread or process fetches it.
  std::unique_ptr<Fetch> try_fetch(const std::string& key) const;

 private:
  std::filesystem::path folder_;
  std::int64_t room_;
};

}  // namespace dimred::stores
