#include "stores/shard_cache.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "support/digest.h"
#include "support/parallel.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;
using std::chrono::duration;
using std::chrono::milliseconds;

/// Between two looks at what other processes do.
constexpr auto look_again = milliseconds(50);

/// When a file that is being fetched may be tried.
constexpr auto fetching = std::chrono::steady_clock::time_point::max();

/// Another version of a file is another file.
std::string key_of(const Found& found) {
  const auto text = formatted("{}\n{}\n{}", found.item.name, found.item.size, found.item.etag);
  return digest(text).substr(0, 16);
}

}  // namespace

ShardCache::ShardCache(std::vector<Found> shards, OpenStore open, ShardCacheOptions options)
    : shards_(std::move(shards)),
      open_(std::move(open)),
      options_(std::move(options)),
      room_(options_.folder, options_.room),
      not_before_(shards_.size()) {
  check(options_.fetches >= 1, "a cache that fetches nothing");
  keys_.reserve(shards_.size());
  for (const auto& shard : shards_) keys_.push_back(key_of(shard));
  options_.store.stop = &ended_;
  threads_ = start_threads(
      "stores", options_.fetches, [this](std::int64_t) { work(); }, [this] { stop(); });
}

ShardCache::~ShardCache() { stop(); }

void ShardCache::stop() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
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
  }
  wake_.notify_all();
}

fs::path ShardCache::get(const Need& need, const std::function<bool()>& stopped) {
  const auto shard = need.shard;
  const auto& url = shards_.at(shard).url;
  require(need.bytes <= room_.room(),
          "[stores] the cache needs room for {} ({} bytes), received room for {} bytes",
          url,
          need.bytes,
          room_.room());
  auto file = room_.file(keys_.at(shard));
  if (is_here(shard)) return file;
  std::unique_lock lock(mutex_);
  const auto self = waiters_.insert(waiters_.end(), {need});
  if (not_before_[shard] != fetching) not_before_[shard] = {};
  wake_.notify_one();
  const auto ended = [&] { return self->failure || is_here(shard); };
  bool is_over = ended();  // asked once: a file that is here may give way at any moment
  for (; !is_over && !stopped(); is_over = ended()) changed_.wait_for(lock, look_again);
  if (!is_over) self->failure = std::make_exception_ptr(StopRequested("{} was stopped", url));
  const auto failure = self->failure;
  waiters_.erase(self);
  if (failure) std::rethrow_exception(failure);
  return file;
}

void ShardCache::drop(std::size_t shard) {
  room_.drop(keys_.at(shard));
  const std::lock_guard lock(mutex_);
  first_wanted_ = 0;  // it may be among those that were here
}

bool ShardCache::is_here(std::size_t shard) const {
  std::error_code unknown;
  return fs::exists(room_.file(keys_[shard]), unknown);
}

bool ShardCache::is_startable(std::size_t shard) const {
  return Clock::now() >= not_before_[shard] && !is_here(shard);
}

/// The next job: a file that somebody waits for, else the first that is wanted and may be tried.
std::optional<ShardCache::Job> ShardCache::next_job() {
  for (const auto& waiter : waiters_)
    if (!waiter.failure && is_startable(waiter.need.shard))
      return Job{waiter.need, /*urgent=*/true};
  // Nothing takes the room that somebody waits for.
  if (std::ranges::any_of(waiters_, &Waiter::without_room)) return {};
  while (first_wanted_ < wanted_.size() && is_here(wanted_[first_wanted_].shard)) ++first_wanted_;
  const auto next = std::find_if(wanted_.begin() + static_cast<std::ptrdiff_t>(first_wanted_),
                                 wanted_.end(),
                                 [&](const Need& need) { return is_startable(need.shard); });
  if (next == wanted_.end()) return {};
  return Job{*next, /*urgent=*/false};
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
    not_before_[job->need.shard] = fetching;
    lock.unlock();
    auto outcome = Outcome::here;
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
  const auto place = room_.try_fetch(keys_[shard]);
  if (!place) return Outcome::elsewhere;
  if (is_here(shard)) return Outcome::here;
  std::vector<std::string> wanted;
  Arrival arrival;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& need : wanted_) wanted.push_back(keys_.at(need.shard));
    arrival = arrival_;
  }
  if (!place->reserve(job.need.bytes, wanted, job.urgent)) return Outcome::no_room;
  fs::remove(place->fresh());  // a process that was killed may have left it whole
  bring_files(store, {{shards_[shard], place->fresh()}}, nullptr);
  if (arrival) arrival(shard, place->fresh());
  place->commit();
  return Outcome::here;
}

void ShardCache::close_job(const Job& job, Outcome outcome, const std::exception_ptr& failure) {
  const auto shard = job.need.shard;
  for (auto& waiter : waiters_) {
    if (waiter.need.shard != shard) continue;
    waiter.without_room = outcome == Outcome::no_room;
    waiter.failure = failure;
  }
  const duration<double> rest = failure ? duration<double>(options_.store.longest_wait)
                                : outcome == Outcome::here ? duration<double>(0)
                                                           : look_again;
  not_before_[shard] = Clock::now() + std::chrono::duration_cast<Clock::duration>(rest);
  changed_.notify_all();
}

}  // namespace dimred::stores
