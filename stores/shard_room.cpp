#include "stores/shard_room.h"

#include <fstream>
#include <utility>

#include "stores/eviction.h"
#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

constexpr auto whole_name = "shard";
constexpr auto fresh_name = "new";       // and NEW.part while it comes
constexpr auto claim_name = "bytes";     // that are set aside for it
constexpr auto lock_name = "lock";       // of who fetches it
constexpr auto room_lock_name = "lock";  // of the folder of all

/// 0 of what has vanished.
std::int64_t size_of(const fs::path& file) {
  std::error_code gone;
  const auto size = fs::file_size(file, gone);
  return gone ? 0 : static_cast<std::int64_t>(size);
}

bool is_begun(const fs::path& file) { return file.filename().string().starts_with(fresh_name); }

/// What there is of one that is not whole.
std::int64_t bytes_begun(const fs::path& folder) {
  std::int64_t bytes = 0;
  for (const auto& item : fs::directory_iterator(folder))
    if (is_begun(item.path())) bytes += size_of(item.path());
  return bytes;
}

void remove_files(const fs::path& folder) {
  std::vector<fs::path> files = {folder / whole_name, folder / claim_name};
  for (const auto& item : fs::directory_iterator(folder))
    if (is_begun(item.path())) files.push_back(item.path());
  for (const auto& file : files) fs::remove(file);
}

std::int64_t claimed(const fs::path& folder) {
  std::int64_t bytes = 0;
  std::ifstream(folder / claim_name) >> bytes;
  return bytes;
}

CachedFile look_at(const fs::path& folder) {
  CachedFile file{.key = folder.filename().string()};
  const auto whole = folder / whole_name;
  std::error_code gone;
  const auto since = fs::last_write_time(whole, gone);
  if (!gone) {
    file.bytes = size_of(whole);
    file.since = since.time_since_epoch().count();
    return file;
  }
  // A claim without its lock is that of a process that was killed.
  if (fs::exists(folder / claim_name) &&
      !FileLock(folder / lock_name).try_take(LockKind::exclusive)) {
    file.bytes = claimed(folder);
    file.fixed = true;
    return file;
  }
  file.bytes = bytes_begun(folder);
  return file;
}

}  // namespace

ShardRoom::ShardRoom(fs::path folder, std::int64_t room) : folder_(std::move(folder)), room_(room) {
  create_folders(folder_);
}

std::unique_ptr<ShardRoom::Fetch> ShardRoom::try_fetch(const std::string& key) const {
  fs::create_directories(folder_ / key);
  auto lock = std::make_unique<FileLock>(folder_ / key / lock_name);
  if (!lock->try_take(LockKind::exclusive)) return nullptr;
  return std::make_unique<Fetch>(*this, key, std::move(lock));
}

ShardRoom::Fetch::Fetch(const ShardRoom& place, std::string key, std::unique_ptr<FileLock> lock)
    : place_(place),
      key_(std::move(key)),
      lock_(std::move(lock)),
      fresh_(place_.folder_ / key_ / fresh_name) {}

ShardRoom::Fetch::~Fetch() {
  std::error_code ignored;  // whoever looks next finds a claim without its lock
  fs::remove(place_.folder_ / key_ / claim_name, ignored);
}

bool ShardRoom::Fetch::reserve(std::int64_t bytes,
                               const std::vector<std::string>& wanted,
                               bool urgent) {
  FileLock all(place_.folder_ / room_lock_name);
  all.take(LockKind::exclusive);
  std::vector<CachedFile> cached;
  for (const auto& item : fs::directory_iterator(place_.folder_)) {
    if (!item.is_directory() || item.path().filename() == key_) continue;
    auto file = look_at(item.path());
    if (file.bytes > 0) cached.push_back(std::move(file));
  }
  const auto leaving = evictions(cached, bytes, place_.room_, wanted, urgent);
  if (!leaving) return false;
  for (const auto& key : *leaving) remove_files(place_.folder_ / key);
  const auto claim = place_.folder_ / key_ / claim_name;
  require_environment(static_cast<bool>(open_output(claim, std::ios::trunc) << bytes << std::flush),
                      "[stores] cannot write {}",
                      claim.string());
  return true;
}

void ShardRoom::Fetch::commit() {
  // It has come now, whatever the time of its content.
  fs::last_write_time(fresh_, fs::file_time_type::clock::now());
  fs::rename(fresh_, place_.folder_ / key_ / whole_name);
}

}  // namespace dimred::stores
