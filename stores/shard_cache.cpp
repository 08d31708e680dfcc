#include "stores/shard_cache.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "support/digest.h"
#include "support/errors.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;
using std::chrono::duration;
using std::chrono::milliseconds;

/// Between two looks at what other processes do.
constexpr auto look_again = milliseconds(50);

/// Another version of a file is another file.
std::string key_of(const Found& found) {
  const auto text = formatted("{}\n{}\n{}", found.item.name, found.item.size, found.item.etag);
  return digest(std::as_bytes(std::span(text))).substr(0, 16);
}

}  // namespace

ShardCache::ShardCache(std::vector<Found> shards, OpenStore open, ShardCacheOptions options)
    : shards_(std::move(shards)),
      open_(std::move(open)),
      options_(std::move(options)),
      room_(options_.folder, options_.room) {
  check(options_.fetches >= 1, "a cache that fetches nothing");
  keys_.reserve(shards_.size());
  for (const auto& shard : shards_) keys_.push_back(key_of(shard));
  options_.store.stop = &ended_;
  for (std::int64_t i = 0; i < options_.fetches; ++i) threads_.emplace_back([this] { work(); });
}

ShardCache::~ShardCache() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ShardCache::on_arrival(Arrival arrival) {
  const std::lock_guard lock(mutex_);
  arrival_ = std::move(arrival);
}

void ShardCache::want(std::vector<Need> needs) {
  {
    const std::lock_guard lock(mutex_);
    wanted_ = std::move(needs);
    first_wanted_ = 0;
    wanted_keys_.clear();
    for (const auto& need : wanted_) wanted_keys_.push_back(keys_.at(need.shard));
  }
  wake_.notify_all();
}

fs::path ShardCache::get(const Need& need, const std::function<bool()>& stopped) {
  const auto shard = need.shard;
  require(need.bytes <= room_.room(),
          "[stores] needs room for {} ({} bytes), received {}",
          shown(shards_.at(shard).url),
          need.bytes,
          room_.room());
  auto file = room_.file(keys_.at(shard));
  if (is_here(shard)) return file;
  std::unique_lock lock(mutex_);
  const auto self = waiters_.insert(waiters_.end(), {need, report_.failures});
  wake_.notify_one();
  std::exception_ptr failure;
  while (!failure && !is_here(shard)) {
    failure = failure_for(*self);
    if (!failure && stopped())
      failure = std::make_exception_ptr(
          Stopped(formatted("[stores] {} was stopped", shown(shards_[shard].url))));
    if (!failure) changed_.wait_for(lock, look_again);
  }
  waiters_.erase(self);
  if (failure) std::rethrow_exception(failure);
  return file;
}

void ShardCache::drop(std::size_t shard) {
  room_.drop(keys_.at(shard));
  const std::lock_guard lock(mutex_);
  first_wanted_ = 0;  // it may be among those that were here
}

/// Of its file since it came; null for none.
std::exception_ptr ShardCache::failure_for(const Waiter& waiter) const {
  const auto failure = failures_.find(waiter.need.shard);
  const bool own = failure != failures_.end() && failure->second.number > waiter.known;
  return own ? failure->second.what : nullptr;
}

ShardCacheReport ShardCache::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

bool ShardCache::is_here(std::size_t shard) const {
  std::error_code unknown;
  return fs::exists(room_.file(keys_[shard]), unknown);
}

bool ShardCache::is_startable(std::size_t shard) const {
  const auto wait = not_before_.find(shard);
  const bool waits = wait != not_before_.end() && Clock::now() < wait->second;
  return !busy_.contains(shard) && !waits && !is_here(shard);
}

/// What somebody waits for, else the first that is wanted and may be tried.
std::optional<ShardCache::Job> ShardCache::next_job() {
  for (const auto& waiter : waiters_)
    if (!failure_for(waiter) && is_startable(waiter.need.shard))
      return Job{waiter.need, /*urgent=*/true};
  // Nothing takes the room that somebody waits for.
  if (std::ranges::any_of(waiters_, [&](const Waiter& waiter) {
        return without_room_.contains(waiter.need.shard);
      }))
    return {};
  while (first_wanted_ < wanted_.size() && is_here(wanted_[first_wanted_].shard)) ++first_wanted_;
  const auto pause = duration<double>(options_.store.longest_wait);
  for (auto i = first_wanted_; i < wanted_.size(); ++i) {
    const auto& need = wanted_[i];
    const auto failure = failures_.find(need.shard);
    const bool rests = failure != failures_.end() && Clock::now() - failure->second.when < pause;
    if (!rests && is_startable(need.shard)) return Job{need, /*urgent=*/false};
  }
  return {};
}

void ShardCache::work() noexcept {
  std::unique_ptr<Store> store;
  std::unique_lock lock(mutex_);
  while (!ended_) {
    const auto job = next_job();
    if (!job) {
      const bool idle = first_wanted_ == wanted_.size() && waiters_.empty();
      wake_.wait_for(lock, idle ? milliseconds(1000) : look_again);
      continue;
    }
    busy_.insert(job->need.shard);
    lock.unlock();
    auto outcome = Outcome::failed;
    std::exception_ptr failure;
    try {
      if (!store) store = open_(options_.store);
      outcome = fetch(*store, *job);
    } catch (...) {
      failure = std::current_exception();
      store.reset();  // its connection may be what is wrong
    }
    lock.lock();
    close_job(*job, outcome, failure);
  }
}

ShardCache::Outcome ShardCache::fetch(Store& store, const Job& job) {
  const auto shard = job.need.shard;
  const auto fetching = room_.try_fetch(keys_[shard]);
  if (!fetching) return Outcome::elsewhere;
  if (is_here(shard)) return Outcome::here;
  std::vector<std::string> wanted;
  Arrival arrival;
  {
    const std::lock_guard lock(mutex_);
    wanted = wanted_keys_;
    arrival = arrival_;
  }
  if (!fetching->reserve(job.need.bytes, wanted, job.urgent)) return Outcome::no_room;
  bring_files(store, {{shards_[shard], fetching->fresh()}}, options_.store, nullptr);
  if (arrival) arrival(shard, fetching->fresh());
  fetching->commit();
  return Outcome::fetched;
}

void ShardCache::close_job(const Job& job, Outcome outcome, std::exception_ptr failure) {
  const auto shard = job.need.shard;
  busy_.erase(shard);
  without_room_.erase(shard);
  switch (outcome) {
    case Outcome::failed:
      failures_[shard] = {++report_.failures, std::move(failure), Clock::now()};
      break;
    case Outcome::fetched:
      ++report_.files;
      [[fallthrough]];
    case Outcome::here:
      failures_.erase(shard);
      not_before_.erase(shard);
      break;
    case Outcome::no_room:
      without_room_.insert(shard);
      [[fallthrough]];
    case Outcome::elsewhere:
      not_before_[shard] = Clock::now() + look_again;
      break;
  }
  changed_.notify_all();
}

}  // namespace dimred::stores
