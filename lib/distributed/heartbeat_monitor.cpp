#include "distributed/heartbeat_monitor.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "distributed/job_store.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/parallel.h"

namespace dimred::distributed {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Failure, rank, text, exit_code, reporting_rank, silent)

namespace {

constexpr auto failure_key = "failure";
constexpr std::int64_t gone = std::int64_t{1} << 60;  // beats of a rank that has left

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::chrono::duration<double> period_of(double timeout) {
  return std::chrono::duration<double>(timeout > 0 ? std::min(1.0, timeout / 4) : 1.0);
}

std::string heartbeat_key(int rank) { return "beat" + std::to_string(rank); }

}  // namespace

HeartbeatMonitor::HeartbeatMonitor(c10::intrusive_ptr<c10d::Store> store,
                                   const HeartbeatOptions& options,
                                   std::function<void(const Failure&)> on_failure)
    : store_(std::move(store)),
      rank_(options.rank),
      size_(options.size),
      reports_lost_store_(options.reports_lost_store),
      agent_store_(options.agent_store),
      period_(period_of(options.timeout)),
      timeout_(options.timeout),
      on_failure_(std::move(on_failure)),
      heartbeats_(options.size, Heartbeat{.beats = -1, .since = now()}),
      last_round_(now()) {
  threads_ = start_threads(
      "distributed",
      timeout_ > 0 ? 2 : 1,
      [this](std::int64_t thread) {
        if (thread == 0) monitor_ranks();
        if (thread == 1) check_store();
      },
      [this] { stop(); });
}

HeartbeatMonitor::~HeartbeatMonitor() { stop(); }

void HeartbeatMonitor::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void HeartbeatMonitor::monitor_ranks() {
  std::unique_lock lock(mutex_);
  while (!stopping_ && !failure_) {
    lock.unlock();
    try {
      send_heartbeat();
    } catch (const std::exception&) {
      notice(store_failure("is gone"));
    }
    last_round_ = now();
    lock.lock();
    changed_.wait_for(lock, period_, [this] { return stopping_ || failure_.has_value(); });
  }
}

/// The watcher may hang in a request to a store whose process was stopped: somebody else must see.
void HeartbeatMonitor::check_store() {
  std::unique_lock lock(mutex_);
  while (!stopping_ && !failure_) {
    changed_.wait_for(lock, period_, [this] { return stopping_ || failure_.has_value(); });
    if (stopping_ || failure_ || now() - last_round_ < timeout_ + period_.count()) continue;
    lock.unlock();
    notice(store_failure(formatted("has not answered for {} s", timeout_.load())));
    lock.lock();
  }
}

void HeartbeatMonitor::send_heartbeat() {
  std::optional<Failure> failure;
  std::vector<std::pair<int, std::int64_t>> beats;
  {
    const std::lock_guard lock(store_mutex_);
    store_->add(heartbeat_key(rank_), 1);
    failure = published();
    const int first = rank_ == 0 ? 1 : 0;
    const int last = rank_ == 0 ? size_ : 1;
    for (int other = first; other < last; ++other)
      beats.emplace_back(other, store_->add(heartbeat_key(other), 0));
  }
  if (failure) notice(*failure);
  for (const auto& [other, count] : beats) check_rank(other, count);
}

Failure HeartbeatMonitor::store_failure(const std::string& what) const {
  constexpr int nobody = -1;
  return {.rank = agent_store_ ? nobody : 0,
          .text = agent_store_ ? formatted("torchrun's store {}", what)
                               : formatted("{}; the store that all ranks share is lost too", what),
          .reporting_rank = reports_lost_store_ ? rank_ : nobody,
          .silent = true};
}

void HeartbeatMonitor::check_rank(int other, std::int64_t beats) {
  auto& heartbeat = heartbeats_[other];
  if (beats != heartbeat.beats) heartbeat = {.beats = beats, .since = now()};
  if (timeout_ <= 0 || beats >= gone || now() - heartbeat.since < timeout_) return;
  notice(report({.rank = other,
                 .text = formatted("has given no sign of life for {} s", timeout_.load()),
                 .reporting_rank = rank_,
                 .silent = true}));
}

std::optional<Failure> HeartbeatMonitor::published() {
  if (!store_->check({failure_key})) return std::nullopt;
  return nlohmann::json::parse(store_->get(failure_key)).get<Failure>();
}

void HeartbeatMonitor::notice(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || stopping_) return;
    failure_ = failure;
  }
  changed_.notify_all();
  on_failure_(failure);
}

Failure HeartbeatMonitor::report(const Failure& failure) {
  try {
    // The watcher may hang in a request to a store that does not answer any more.
    const std::unique_lock lock(store_mutex_, std::chrono::seconds(1));
    if (!lock.owns_lock()) return failure;
    return nlohmann::json::parse(
        store_->compareSet(failure_key, {}, stored(json_line(nlohmann::json(failure)))));
  } catch (const std::exception&) {
    return failure;
  }
}

void HeartbeatMonitor::suspect() {
  constexpr double enough = 3;
  if (timeout_ > enough) timeout_ = enough;
}

std::optional<Failure> HeartbeatMonitor::failure(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(
      lock, std::chrono::duration<double>(seconds), [this] { return failure_.has_value(); });
  return failure_;
}

void HeartbeatMonitor::leave() {
  stop();
  const std::lock_guard lock(store_mutex_);
  store_->add(heartbeat_key(rank_), gone);
}

}  // namespace dimred::distributed
