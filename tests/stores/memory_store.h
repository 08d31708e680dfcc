#pragma once

#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "stores/download.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::stores {

/// Attempts without waits.
inline StoreOptions quick(std::int64_t attempts = 3) {
  StoreOptions options;
  options.attempts = attempts;
  options.first_wait = 0;
  return options;
}

/// The process is gone: no part of ours may catch it as a failure of the store.
struct Killed {};

/// Objects in memory, as S3 has them; what goes wrong is set by the test.
class MemoryStore : public Store {
 public:
  explicit MemoryStore(std::int64_t attempts = 3) : Store(quick(attempts)) {}

  std::map<std::string, std::string> objects;  // by path
  std::int64_t changes_left = -1;              // before Killed; -1: no end
  std::int64_t failures = 0;                   // of the next requests
  bool passing = true;                         // those failures
  std::int64_t cut_after = -1;                 // bytes of each read; -1: all
  bool deletes_first = false;                  // put() in two steps, as HDFS's client does it
  bool equal_etags = false;                    // of a store that only knows when it was written
  std::int64_t puts = 0, read_bytes = 0;
  std::function<void()> before_read;  // what others do meanwhile
  std::function<void()> after_read;

  std::optional<Item> stat(const Url& url) override {
    fail();
    const auto at = objects.find(url.path);
    if (at == objects.end()) return {};
    return item(*at, "");
  }

  std::vector<Item> list(const Url& folder) override {
    fail();
    std::vector<Item> items;
    for (const auto& one : objects) {
      if (one.first.starts_with(folder.path + '/'))
        items.push_back(item(one, one.first.substr(folder.path.size() + 1)));
    }
    return items;
  }

  void read(const Url& url, const Item& expected, std::int64_t offset, const Sink& sink) override {
    fail();
    if (before_read) before_read();
    const auto text = objects.at(url.path);
    if (expected.size != std::ssize(text) ||
        (!expected.etag.empty() && expected.etag != item({url.path, text}, "").etag))
      throw Changed("has changed");
    auto rest = text.substr(offset);
    const bool cut = cut_after >= 0 && std::ssize(rest) > cut_after;
    if (cut) rest.resize(cut_after);
    read_bytes += std::ssize(rest);
    sink(std::as_bytes(std::span(rest)));
    if (cut) throw Passing("cut");
    if (after_read) after_read();
  }

  void put(const std::vector<Put>& files) override {
    for (const auto& [local, url] : files) {
      fail();
      change();
      ++puts;
      if (deletes_first && objects.erase(url.path) > 0) change();
      objects[url.path] = text_of_file(local);
    }
  }

  bool replaces() const override { return !deletes_first; }

  void remove(const std::vector<Url>& urls) override {
    for (const auto& url : urls) {
      fail();
      change();
      objects.erase(url.path);
    }
  }

 private:
  Item item(const std::pair<const std::string, std::string>& object, std::string name) const {
    const auto hash = equal_etags ? 1 : std::hash<std::string>()(object.second);
    return {std::move(name), std::ssize(object.second), std::to_string(hash)};
  }

  void fail() {
    if (failures <= 0) return;
    --failures;
    if (passing) throw Passing("the store fails");
    throw StoreError("the store fails");
  }

  void change() {
    if (changes_left == 0) throw Killed();
    if (changes_left > 0) --changes_left;
  }
};

/// Brings the files that find() finds at `url` to `local`.
inline Transfer download(Store& store,
                         const Url& url,
                         const std::filesystem::path& local,
                         bool overwrite = false) {
  return download(store, url, find(store, url), local, overwrite);
}

using Files = std::map<std::string, std::string>;

/// A folder's files, by name below it.
inline Files files_of(const std::filesystem::path& folder) {
  Files files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      files[entry.path().lexically_relative(folder).string()] = text_of_file(entry.path());
  }
  return files;
}

inline void make_files(const std::filesystem::path& folder, const Files& files) {
  std::filesystem::remove_all(folder);
  for (const auto& [name, text] : files) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << text;
  }
}

}  // namespace dimred::stores
