#include "stores/shard_room.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <tuple>
#include <utility>

#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/open_file.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

constexpr auto whole_name = "shard";
constexpr auto fresh_name = "new";    // and new.part while it comes
constexpr auto claim_name = "bytes";  // that are set aside for it
constexpr auto lock_name = "lock";    // of who fetches it; in the folder of all, of who makes room

/// The present bytes of an incomplete file.
std::vector<fs::path> begun_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& item : fs::directory_iterator(folder))
    if (item.path().filename().string().starts_with(fresh_name)) files.push_back(item.path());
  return files;
}

void remove_files(const fs::path& folder) {
  for (const auto& file : begun_files(folder)) fs::remove(file);
  for (const auto* const name : {whole_name, claim_name}) fs::remove(folder / name);
}

/// The claim first: a file that is whole by now and had one a moment ago is counted once, not
/// never.
CachedFile look_at(const fs::path& folder) {
  CachedFile file{.key = folder.filename().string()};
  const auto size = [](const fs::path& path) -> std::int64_t {
    std::error_code gone;  // -1: it has vanished
    return std::max<std::int64_t>(0, static_cast<std::int64_t>(fs::file_size(path, gone)));
  };
  const auto claim = folder / claim_name;
  // A claim without its lock is that of a process that was killed.
  if (fs::exists(claim) && !FileLock(folder / lock_name).try_take(LockKind::exclusive) &&
      std::ifstream(claim) >> file.bytes) {
    file.fixed = true;
    return file;
  }
  const auto whole = folder / whole_name;
  std::error_code gone;
  const auto since = fs::last_write_time(whole, gone);
  if (!gone) {
    file.bytes = size(whole);
    file.since = since.time_since_epoch().count();
  } else {
    for (const auto& begun : begun_files(folder)) file.bytes += size(begun);
  }
  return file;
}

}  // namespace

std::optional<std::vector<std::string>> evictions(const std::vector<CachedFile>& cached,
                                                  std::int64_t bytes,
                                                  std::int64_t room,
                                                  const std::vector<std::string>& wanted,
                                                  bool urgent) {
  std::map<std::string, std::int64_t> turns;  // in which they are wanted
  for (const auto& key : wanted) turns.emplace(key, std::ssize(turns));
  std::vector<std::tuple<bool, std::int64_t, const CachedFile*>> candidates;
  for (const auto& file : cached) {
    bytes += file.bytes;
    const auto turn = turns.find(file.key);
    const bool is_wanted = turn != turns.end();
    if (!file.fixed && (urgent || !is_wanted))
      candidates.emplace_back(is_wanted, is_wanted ? -turn->second : file.since, &file);
  }
  std::ranges::sort(candidates);
  std::vector<std::string> keys;
  for (auto next = candidates.begin(); bytes > room && next != candidates.end(); ++next) {
    const auto* const file = std::get<const CachedFile*>(*next);
    bytes -= file->bytes;
    keys.push_back(file->key);
  }
  if (bytes > room) return std::nullopt;
  return keys;
}

ShardRoom::ShardRoom(fs::path folder, std::int64_t room) : folder_(std::move(folder)), room_(room) {
  create_folders(folder_);
}

std::unique_ptr<ShardRoom::Fetch> ShardRoom::try_fetch(const std::string& key) const {
  const auto folder = folder_ / key;
  create_folders(folder);
  auto lock = std::make_unique<FileLock>(folder / lock_name);
  if (!lock->try_take(LockKind::exclusive)) return nullptr;
  return std::make_unique<Fetch>(*this, folder, std::move(lock));
}

ShardRoom::Fetch::Fetch(const ShardRoom& place, fs::path folder, std::unique_ptr<FileLock> lock)
    : place_(place), folder_(std::move(folder)), lock_(std::move(lock)) {}

ShardRoom::Fetch::~Fetch() {
  std::error_code ignored;  // the next process finds a claim without its lock
  fs::remove(folder_ / claim_name, ignored);
}

fs::path ShardRoom::Fetch::fresh() const { return folder_ / fresh_name; }

bool ShardRoom::Fetch::reserve(std::int64_t bytes,
                               const std::vector<std::string>& wanted,
                               bool urgent) {
  FileLock all(place_.folder_ / lock_name);
  all.take(LockKind::exclusive);
  std::vector<CachedFile> cached;
  for (const auto& item : fs::directory_iterator(place_.folder_)) {
    if (!item.is_directory() || item.path() == folder_) continue;
    auto file = look_at(item.path());
    if (file.bytes > 0) cached.push_back(std::move(file));
  }
  const auto leaving = evictions(cached, bytes, place_.room_, wanted, urgent);
  if (!leaving) return false;
  for (const auto& key : *leaving) remove_files(place_.folder_ / key);
  auto claim = open_output(folder_ / claim_name, std::ios::trunc);
  claim << bytes << std::flush;
  require_environment(claim.good(), "[stores] cannot write {}", (folder_ / claim_name).string());
  return true;
}

void ShardRoom::Fetch::commit() {
  // It has come now, whatever the time of its content.
  fs::last_write_time(fresh(), fs::file_time_type::clock::now());
  fs::rename(fresh(), folder_ / whole_name);
}

}  // namespace dimred::stores
