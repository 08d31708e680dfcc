#include "distributed/rendezvous.h"

#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "distributed/job_store.h"
#include "support/errors.h"
#include "support/stopwatch.h"

namespace dimred::distributed {
namespace {

using std::chrono::milliseconds;

constexpr auto outcome_key = "outcome";  // rank 0's: started, or why not
constexpr auto decline_key = "decline";  // of a rank that cannot start

std::string join_key(int rank) { return formatted("join{}", rank); }
std::string reply_key(const std::string& name) { return formatted("reply/{}", name); }
std::string ready_key(const std::string& start, int rank) {
  return formatted("{}/ready{}", start, rank);
}
std::string key_of(const std::string& start, const char* key) {
  return formatted("{}/{}", start, key);
}

/// A name that no other process and no earlier start has.
std::string unique_name() {
  std::random_device random;
  return formatted("{}-{}-{}", ::getpid(), random(), random());
}

std::string text_at(c10d::Store& store, const std::string& key) {
  const auto bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

/// Rank 0's side of the rendezvous. Every rank joins under a unique name, and the reply under that
/// name is rank 0's start. So what earlier starts left in the store is never taken for a rank that
/// has come, however torchrun's agents count their restarts.
class RendezvousHost {
 public:
  RendezvousHost(c10d::Store& store, const launch::RankInfo& rank_info)
      : store_(store), rank_info_(rank_info), admitted_(rank_info.size) {}

  const std::string& start() const { return start_; }

  void admit_all() {
    for (int rank = 1; rank < rank_info_.size; ++rank) {
      if (!store_.check({join_key(rank)})) continue;
      auto name = text_at(store_, join_key(rank));
      auto& known = admitted_[rank];
      if (name == known) continue;
      store_.set(reply_key(name), stored(start_));
      known = std::move(name);
    }
  }

  /// Names the ranks that have not come; empty when all have.
  std::string missing() const {
    constexpr int named = 8;
    std::string names;
    int count = 0;
    for (int rank = 1; rank < rank_info_.size; ++rank) {
      if (store_.check({ready_key(start_, rank)})) continue;
      if (++count <= named) names += formatted("{}{}", names.empty() ? "" : ", ", rank);
    }
    return count > named ? formatted("{} and {} more", names, count - named) : names;
  }

  std::string decline_reason() const {
    const auto key = key_of(start_, decline_key);
    return store_.check({key}) ? text_at(store_, key) : "";
  }

  void publish(const std::string& outcome) {
    store_.set(key_of(start_, outcome_key), stored(outcome));
  }

 private:
  c10d::Store& store_;
  const launch::RankInfo& rank_info_;
  std::string start_ = unique_name();
  std::vector<std::string> admitted_;
};

constexpr auto started = "start";

/// Why not all ranks start together; empty when they do.
std::string reason_not_to_start(RendezvousHost& host,
                                const launch::RankInfo& rank_info,
                                double timeout) {
  const Stopwatch waiting;
  while (true) {
    host.admit_all();
    const auto missing = host.missing();
    // Read after `missing`: a rank that declines says so before it counts as come.
    if (auto decline_reason = host.decline_reason(); !decline_reason.empty()) return decline_reason;
    if (missing.empty()) return {};
    if (waiting.seconds() > timeout) {
      return formatted(
          "[distributed] needs all {} ranks at {} within {} s, but these ranks have not come: {}",
          rank_info.size,
          rendezvous_address(rank_info),
          timeout,
          missing);
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

/// Answers ranks that are still to come, so that they learn the outcome instead of missing rank 0.
void answer_late(RendezvousHost& host, double patience) {
  for (const Stopwatch here; here.seconds() < patience && !host.missing().empty();) {
    host.admit_all();
    std::this_thread::sleep_for(milliseconds(50));
  }
}

/// Tells the others why nobody starts. Rank 0's own store stays for late ranks; an agent's stays
/// anyway, and the agent may end rank 0 at any moment.
void publish_reason(RendezvousHost& host, const std::string& reason, bool own_store) {
  host.publish(reason);
  if (!own_store) return;
  constexpr double longest = 3;  // as long as a rank tries to decline
  if (!host.decline_reason().empty()) answer_late(host, longest);
  std::this_thread::sleep_for(milliseconds(500));  // the store must live until all have read
}

/// Joins rank 0's rendezvous; returns the start that it replies with. Throws when it does not in
/// time.
std::string join(c10d::Store& store, const launch::RankInfo& rank_info, double timeout) {
  const auto name = unique_name();
  store.set(join_key(rank_info.rank), stored(name));
  store.wait({reply_key(name)}, in_milliseconds(timeout));
  return text_at(store, reply_key(name));
}

}  // namespace

std::string rendezvous(c10d::Store& store, const launch::RankInfo& rank_info, double timeout) {
  if (rank_info.rank == 0) {
    RendezvousHost host(store, rank_info);
    const auto reason = reason_not_to_start(host, rank_info, timeout);
    if (reason.empty()) {
      host.publish(started);
      return host.start();
    }
    try {
      publish_reason(host, reason, /*own_store=*/!rank_info.agent_store);
    } catch (const std::exception&) {  // a store that fails must not hide the reason
    }
    throw std::runtime_error(reason);
  }
  constexpr double patience = 5;  // the outcome comes after rank 0's own time is up
  std::string start;
  try {
    start = join(store, rank_info, timeout + patience);
    store.set(ready_key(start, rank_info.rank), stored("1"));
    store.wait({key_of(start, outcome_key)}, in_milliseconds(timeout + patience));
  } catch (const std::exception&) {
    fail_environment(
        "[distributed] rank 0 at {} did not answer in time; a larger --rendezvous_timeout may help",
        rendezvous_address(rank_info));
  }
  const auto outcome = text_at(store, key_of(start, outcome_key));
  if (outcome != started) throw ReportedByRank0(outcome);
  return start;
}

void decline_rendezvous(c10d::Store& job,
                        const launch::RankInfo& rank_info,
                        const std::string& reason,
                        double patience) {
  const auto text = formatted("rank {}: {}", rank_info.rank, reason);
  if (rank_info.rank != 0) {
    const auto start = join(job, rank_info, patience);
    job.set(key_of(start, decline_key), stored(text));
    job.set(ready_key(start, rank_info.rank), stored("1"));
    return;
  }
  RendezvousHost host(job, rank_info);
  host.publish(text);
  answer_late(host, patience);
}

}  // namespace dimred::distributed
