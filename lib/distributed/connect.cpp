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

constexpr auto stopped_key = "stopped";  // by a signal: torchrun must not restart it

/// Keys of one part of one start of the ranks.
Store keys_of(const Store& job, const std::string& start, const char* part) {
  return c10::make_intrusive<c10d::PrefixStore>(formatted("{}/{}", start, part), job);
}

/// Ranks of each node where they lie node by node and every node has as many, as launchers place
/// them; else all, so that no far rank is taken for a near one.
int node_size_of(c10d::Backend& host, const launch::RankInfo& rank_info) {
  const auto size = rank_info.size;
  auto placed = torch::zeros({size, 2}, torch::kInt64);
  placed[rank_info.rank][0] = rank_info.local_rank;
  placed[rank_info.rank][1] = rank_info.local_size;
  std::vector<at::Tensor> list{placed};
  host.allreduce(list)->wait();
  const auto node_size = placed[0][1].item<std::int64_t>();
  if (node_size < 1 || size % node_size != 0) return size;
  const auto ranks = torch::arange(size);
  const bool by_node = torch::equal(placed.select(1, 0), ranks.remainder(node_size)) &&
                       torch::all(placed.select(1, 1) == node_size).item<bool>();
  return by_node ? static_cast<int>(node_size) : size;
}

std::shared_ptr<TensorCommunicator> make_communicator(const Store& job,
                                                      const std::string& start,
                                                      const launch::RankInfo& rank_info,
                                                      const launch::ConnectOptions& options,
                                                      bool on_gpu) {
  const GroupOptions group{.store = keys_of(job, start, "gloo"),
                           .rank = rank_info.rank,
                           .size = rank_info.size,
                           .timeout = options.collective_timeout,
                           .address = own_address(rank_info)};
  Backends backends{.host = make_gloo(group)};
  if (on_gpu && options.backend != launch::Backend::gloo) {
    auto device_group = group;
    device_group.store = keys_of(job, start, "nccl");
    backends.device = make_nccl(device_group);
  }
  require_environment(options.backend != launch::Backend::nccl || backends.device,
                      "[distributed] backend = nccl needs a GPU and a build with NCCL");
  const int node_size = node_size_of(*backends.host, rank_info);
  return process_group(std::move(backends), rank_info.rank, rank_info.size, node_size);
}

/// Without the store ranks cannot agree on the reporting rank: one rank of each machine reports its
/// loss.
bool reports_lost_store(const launch::RankInfo& rank_info) {
  const bool machine_of_rank_0 = rank_info.rank == rank_info.local_rank;
  return rank_info.local_rank == (machine_of_rank_0 ? 1 : 0);
}

}  // namespace

Ranks single_process(const launch::RankInfo& rank_info) {
  return {.rank_info = rank_info, .communicator = single_rank(), .monitor = nullptr};
}

Ranks connect(const launch::RankInfo& rank_info,
              const launch::ConnectOptions& options,
              bool on_gpu,
              const std::function<void(const Failure&)>& on_failure) {
  auto ranks = single_process(rank_info);
  if (rank_info.size == 1) return ranks;
  const auto timeout = options.rendezvous_timeout;
  const bool serve = rank_info.rank == 0 && !rank_info.agent_store;
  const auto job = open_job_store(rank_info, timeout, serve);
  const auto start = rendezvous(*job, rank_info, timeout);

  const auto processes = std::make_shared<RankProcesses>();
  // Before the backends, whose making waits for every rank. A connection of its own: a request that
  // waits must not hold up a sign of life.
  ranks.monitor = std::make_unique<HeartbeatMonitor>(
      keys_of(open_job_store(rank_info, timeout), start, "watch"),
      HeartbeatOptions{.rank = rank_info.rank,
                       .size = rank_info.size,
                       .timeout = options.heartbeat_timeout,
                       .reports_lost_store = reports_lost_store(rank_info),
                       .agent_store = rank_info.agent_store},
      [processes, on_failure](const Failure& failure) {
        if (failure.silent) processes->end(failure.rank);
        on_failure(failure);
      });

  try {
    ranks.communicator = make_communicator(job, start, rank_info, options, on_gpu);
    processes->exchange_pids(*keys_of(job, start, "processes"), rank_info);
  } catch (const std::exception& error) {
    constexpr double rounds = 6;  // of the monitor: when a rank has died meanwhile, it ends us
    ranks.monitor->suspect();
    ranks.monitor->failure(rounds);
    const auto standing = ranks.monitor->report(
        {.rank = rank_info.rank, .text = error.what(), .reporting_rank = rank_info.rank});
    if (standing.reporting_rank != rank_info.rank) throw ReportedByRank0(standing.text);
    throw;
  }
  return ranks;
}

bool decline(const launch::RankInfo& rank_info, const std::string& reason) {
  constexpr double patience = 3;
  try {
    const bool serve = rank_info.rank == 0 && !rank_info.agent_store;
    decline_rendezvous(*open_job_store(rank_info, patience, serve), rank_info, reason, patience);
    return true;
  } catch (const std::exception&) {  // rank 0 may still be downloading, or have failed and gone
    return false;
  }
}

void mark_stopped(const launch::RankInfo& rank_info) {
  if (!rank_info.agent_store) return;
  constexpr double patience = 3;
  try {
    open_job_store(rank_info, patience)->set(stopped_key, std::vector<std::uint8_t>{1});
  } catch (const std::exception&) {  // torchrun is going too, and will not restart it
  }
}

bool was_stopped(const launch::RankInfo& rank_info) {
  if (!rank_info.agent_store) return false;
  constexpr double patience = 3;
  return open_job_store(rank_info, patience)->check({stopped_key});
}

void Ranks::leave() {
  if (!monitor) return;
  communicator->barrier();
  monitor->leave();
  communicator->barrier();  // rank 0's store outlives everybody's last request
  monitor.reset();
}

}  // namespace dimred::distributed
