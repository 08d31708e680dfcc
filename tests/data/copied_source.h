#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "data/record_readers.h"
#include "data/shard_source.h"
#include "tests/data/record_files.h"

namespace dimred::data {

/// Files of one folder that come into another, with at most a number of bytes there at a time: the
/// oldest give way to the next.
class CopiedSource : public ShardSource {
 public:
  CopiedSource(std::vector<std::filesystem::path> files,
               std::filesystem::path here,
               std::int64_t room)
      : files_(std::move(files)), here_(std::move(here)), room_(room) {
    std::filesystem::create_directories(here_);
    for (const auto& file : files_)
      shards_.push_back({.name = file.filename().string(),
                         .url = "there://" + file.filename().string(),
                         .bytes = static_cast<std::int64_t>(std::filesystem::file_size(file)),
                         .version = std::to_string(std::hash<std::string>()(text_of_file(file)))});
  }

  const std::vector<RemoteShard>& shards() const override { return shards_; }
  std::string url_of(const std::string& name) const override { return "there://" + name; }
  std::filesystem::path folder() const override { return here_; }
  std::int64_t room() const override { return room_; }
  std::int64_t fetches() const override { return 2; }
  void on_arrival(Arrival arrival) override {
    const std::lock_guard lock(mutex_);
    arrival_ = std::move(arrival);
  }
  void want(std::vector<ShardNeed> needs) override {
    const std::lock_guard lock(mutex_);
    std::vector<std::size_t> wanted;
    for (const auto& need : needs) wanted.push_back(need.shard);
    wants.push_back(std::move(wanted));
  }

  std::filesystem::path get(const ShardNeed& need, const std::function<bool()>& stopped) override {
    namespace fs = std::filesystem;
    while (blocked) {
      waiting = true;
      if (stopped()) throw ReadingStopped();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::lock_guard lock(mutex_);
    auto file = here_ / shards_[need.shard].name;
    if (fs::exists(file)) return file;
    if (failing == static_cast<int>(need.shard)) throw FetchFailed("cannot be had");
    for (; bytes_ + need.bytes > room_ && !present_.empty(); present_.pop_front()) {
      bytes_ -= present_.front().bytes;
      fs::remove(here_ / shards_[present_.front().shard].name);
    }
    fs::copy_file(files_[need.shard], file);
    try {
      if (arrival_) arrival_(need.shard, file);
    } catch (const std::exception& error) {
      fs::remove(file);
      throw FetchFailed(error.what());
    }
    present_.push_back(need);
    bytes_ += need.bytes;
    most = std::max(most, bytes_);
    fetched.push_back(need.shard);
    return file;
  }

  void drop(std::size_t shard) override {
    const std::lock_guard lock(mutex_);
    std::filesystem::remove(here_ / shards_[shard].name);
    const auto is_it = [&](const ShardNeed& need) { return need.shard == shard; };
    for (auto at = std::ranges::find_if(present_, is_it); at != present_.end();
         at = std::ranges::find_if(present_, is_it)) {
      bytes_ -= at->bytes;
      present_.erase(at);
    }
    ++dropped;
  }

  /// The latest of them.
  std::vector<std::size_t> wanted() {
    const std::lock_guard lock(mutex_);
    return wants.empty() ? std::vector<std::size_t>() : wants.back();
  }

  std::atomic<bool> blocked = false;  // get() waits
  std::atomic<bool> waiting = false;  // it does
  std::atomic<int> failing = -1;      // this one
  std::vector<std::size_t> fetched;
  std::vector<std::vector<std::size_t>> wants;
  std::int64_t most = 0;
  std::int64_t dropped = 0;

 private:
  std::vector<std::filesystem::path> files_;
  std::filesystem::path here_;
  std::int64_t room_, bytes_ = 0;
  std::mutex mutex_;
  Arrival arrival_;
  std::vector<RemoteShard> shards_;
  std::deque<ShardNeed> present_;
};

/// TFRecord files there, each with a number of samples; labels are the numbers of samples modulo 3.
struct StreamedRecords {
  TemporaryFolder folder;
  std::vector<std::filesystem::path> files;

  explicit StreamedRecords(const std::vector<int>& samples) {
    std::filesystem::create_directories(folder / "there");
    std::int64_t number = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      std::string text;
      for (int left = samples[i]; left > 0; --left, ++number)
        text += example_record(number, number % 3);
      files.push_back(folder.write("there/train-" + std::to_string(i), text));
    }
  }

  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const auto& file : files)
      sum += static_cast<std::int64_t>(std::filesystem::file_size(file));
    return sum;
  }

  std::shared_ptr<CopiedSource> source(std::int64_t room) const {
    return std::make_shared<CopiedSource>(files, folder / "here", room);
  }

  std::shared_ptr<const Dataset> open_here(RecordOptions options = {}) const {
    options.files = files;
    return open_tfrecord(options);
  }

  /// `content`: the folder with labels.txt and shards.index, if there are any.
  std::shared_ptr<const Dataset> open_streamed(std::shared_ptr<CopiedSource> source,
                                               RecordOptions options = {},
                                               const std::string& content = "content") const {
    for (const auto& shard : source->shards())
      options.files.push_back(folder / content / shard.name);
    options.source = std::move(source);
    return open_tfrecord(options);
  }
};

}  // namespace dimred::data
