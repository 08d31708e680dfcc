#pragma once

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "stores/shard_cache.h"
#include "tests/stores/memory_store.h"

namespace dimred::stores {

/// A MemoryStore for several threads, which can be made to wait in the midst of a file.
struct SharedObjects {
  MemoryStore store;
  std::mutex mutex;                  // of `store` and what was read
  std::vector<std::string> reads;    // paths, in the order of their ends
  std::atomic<bool> closed = false;  // reads wait after the first byte

  std::int64_t count() {
    const std::lock_guard lock(mutex);
    return std::ssize(reads);
  }
};

class SharedStore : public Store {
 public:
  SharedStore(SharedObjects& objects, const StoreOptions& options)
      : Store(options), objects_(objects) {}

  std::optional<Item> stat(const Url& url) override {
    const std::lock_guard lock(objects_.mutex);
    return objects_.store.stat(url);
  }
  std::vector<Item> list(const Url& folder) override {
    const std::lock_guard lock(objects_.mutex);
    return objects_.store.list(folder);
  }
  void read(const Url& url, const Item& expected, std::int64_t offset, const Sink& sink) override {
    std::string text;
    {
      const std::lock_guard lock(objects_.mutex);
      objects_.store.read(url, expected, offset, [&](std::span<const std::byte> bytes) {
        text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      });
    }
    const auto bytes = std::as_bytes(std::span(text));
    sink(bytes.first(1));
    while (objects_.closed) {
      if (is_stopped(options())) throw StopRequested("stopped");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    sink(bytes.subspan(1));
    const std::lock_guard lock(objects_.mutex);
    objects_.reads.push_back(url.path);
  }
  void put(const std::vector<Put>&) override {}
  void remove(const std::vector<Url>&) override {}

 private:
  SharedObjects& objects_;
};

/// Files /data/a, /data/b, ... of 10 bytes each, and caches of them in one folder.
struct CachedShards {
  TemporaryFolder folder;
  SharedObjects objects;

  explicit CachedShards(int count) {
    for (int i = 0; i < count; ++i)
      objects.store.objects[path_of(static_cast<std::size_t>(i))] =
          std::string(9, static_cast<char>('a' + i)) + "\n";
  }

  static std::string path_of(std::size_t shard) {
    return std::string("/data/") + static_cast<char>('a' + shard);
  }

  std::vector<Found> found() {
    return find_in_folder(objects.store, parse_url("s3://bucket/data"));
  }

  std::unique_ptr<ShardCache> open(std::int64_t room, std::int64_t fetches = 2) {
    ShardCacheOptions options{
        .store = quick(1), .folder = folder / "shards", .room = room, .fetches = fetches};
    options.store.longest_wait = 0.2;
    return std::make_unique<ShardCache>(
        found(),
        [this](const StoreOptions& own) { return std::make_unique<SharedStore>(objects, own); },
        options);
  }

  std::string expected(std::size_t shard) {
    const std::lock_guard lock(objects.mutex);
    return objects.store.objects.at(path_of(shard));
  }
};

inline const std::function<bool()> never = [] { return false; };

/// Text of the file, which another may push out at any moment.
inline std::string text_of_shard(ShardCache& cache, std::size_t shard) {
  while (true) {
    std::ifstream in(cache.get({shard, 10}, never), std::ios::binary);
    if (in) return {std::istreambuf_iterator<char>(in), {}};
  }
}

/// Bytes of all shards in a cache's folder, whole and begun, while nobody makes room.
inline std::int64_t bytes_in(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  FileLock lock(folder / "lock");
  lock.take(LockKind::exclusive);
  std::int64_t sum = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    std::error_code gone;
    const auto whole = fs::file_size(entry.path() / "shard", gone);
    if (!gone) {
      sum += static_cast<std::int64_t>(whole);
      continue;
    }
    for (const auto* name : {"new", "new.part"}) {
      const auto begun = fs::file_size(entry.path() / name, gone);
      if (!gone) sum += static_cast<std::int64_t>(begun);
    }
  }
  return sum;
}

template <class Holds>
bool becomes(Holds holds) {
  for (int i = 0; i < 2000 && !holds(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return holds();
}

}  // namespace dimred::stores
