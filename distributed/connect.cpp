#include "distributed/connect.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "distributed/address.h"
#include "distributed/job_store.h"
#include "distributed/process_group.h"
#include "distributed/rank_processes.h"
#include "support/errors.h"

namespace dimred::distributed {
namespace {

constexpr auto stopped_key = "stopped";  // by a signal: torchrun must not start it anew

/// Keys of one part of one start of the ranks.
Store keys_of(const Store& job, const std::string& start, const char* part) {
  return c10::make_intrusive<c10d::PrefixStore>(formatted("{}/{}", start, part), job);
}

std::shared_ptr<Communicator> make_communicator(const Store& job,
                                                const std::string& start,
                                                const launch::Place& place,
                                                const launch::ConnectOptions& options,
                                                bool on_gpu) {
  const GroupPlace group{.store = keys_of(job, start, "gloo"),
                         .rank = place.rank,
                         .size = place.size,
                         .timeout = options.collective_timeout,
                         .address = own_address(place)};
  Backends backends{.host = make_gloo(group)};
  if (on_gpu && options.backend != launch::Backend::gloo) {
    auto device_group = group;
    device_group.store = keys_of(job, start, "nccl");
    backends.device = make_nccl(device_group);
  }
  require_environment(options.backend != launch::Backend::nccl || backends.device,
                      "[distributed] backend = nccl needs a GPU and a build with NCCL");
  return process_group(std::move(backends), place.rank, place.size);
}

/// Where the store is gone there is nobody to agree with on who says so: one rank a machine does.
bool speaks_of_the_store(const launch::Place& place) {
  const bool machine_of_rank_0 = place.rank == place.local_rank;
  return place.local_rank == (machine_of_rank_0 ? 1 : 0);
}

}  // namespace

Ranks alone(const launch::Place& place) {
  return {.place = place, .communicator = single_rank(), .watch = nullptr};
}

Ranks connect(const launch::Place& place,
              const launch::ConnectOptions& options,
              bool on_gpu,
              const std::function<void(const Failure&)>& on_failure) {
  auto ranks = alone(place);
  if (place.size == 1) return ranks;
  const auto timeout = options.rendezvous_timeout;
  const bool serve = place.rank == 0 && !place.agent_store;
  const auto job = open_job_store(place, timeout, serve);
  const auto start = meet(*job, place, timeout);

  const auto processes = std::make_shared<RankProcesses>();
  // Before the backends, whose making waits for every rank. A connection of its own: a request that
  // waits must not hold up a sign of life.
  ranks.watch = std::make_unique<Watch>(keys_of(open_job_store(place, timeout), start, "watch"),
                                        WatchOptions{.rank = place.rank,
                                                     .size = place.size,
                                                     .timeout = options.heartbeat_timeout,
                                                     .speaks_of_store = speaks_of_the_store(place),
                                                     .agent_store = place.agent_store},
                                        [processes, on_failure](const Failure& failure) {
                                          if (failure.silent) processes->end(failure.rank);
                                          on_failure(failure);
                                        });

  try {
    ranks.communicator = make_communicator(job, start, place, options, on_gpu);
    processes->meet(*keys_of(job, start, "processes"), place);
  } catch (const std::exception& error) {
    constexpr double rounds = 6;  // of the watch: when a rank has died meanwhile, it ends us
    ranks.watch->suspect();
    ranks.watch->failure(rounds);
    const auto standing =
        ranks.watch->report({.rank = place.rank, .text = error.what(), .speaker = place.rank});
    if (standing.speaker != place.rank) throw SaidByRank0(standing.text);
    throw;
  }
  return ranks;
}

bool refuse(const launch::Place& place, const std::string& reason) {
  constexpr double patience = 3;
  try {
    const bool serve = place.rank == 0 && !place.agent_store;
    stay_away(*open_job_store(place, patience, serve), place, reason, patience);
    return true;
  } catch (const std::exception&) {  // rank 0 may still be downloading, or have failed and gone
    return false;
  }
}

void mark_stopped(const launch::Place& place) {
  if (!place.agent_store) return;
  constexpr double patience = 3;
  try {
    open_job_store(place, patience)->set(stopped_key, std::vector<std::uint8_t>{1});
  } catch (const std::exception&) {  // torchrun is going too, and will not start it anew
  }
}

bool was_stopped(const launch::Place& place) {
  if (!place.agent_store) return false;
  constexpr double patience = 3;
  return open_job_store(place, patience)->check({stopped_key});
}

void Ranks::leave() {
  if (!watch) return;
  communicator->barrier();
  watch->leave();
  communicator->barrier();  // rank 0's store outlives everybody's last request
  watch.reset();
}

}  // namespace dimred::distributed
