#pragma once

#include <functional>
#include <string>

namespace dimred::launch {

/// This process's rank, and the other facts that a launcher gives its processes.
struct RankInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this machine
  int local_size = 1;
  std::string address;       // of rank 0's machine
  int port = 0;              // of the store that rank 0, or torchrun's agent, serves
  bool agent_store = false;  // torchrun's agent serves it, rank 0 must not
  std::string run_id;        // of the job, the same for all its ranks; may be empty
};

/// An environment variable by name; nullptr when it is not set.
using Lookup = std::function<const char*(const char*)>;

/// Rank and size from the variables of torchrun (RANK, WORLD_SIZE, ...), Open MPI
/// (OMPI_COMM_WORLD_RANK, ...) or srun (SLURM_PROCID, SLURM_STEP_NUM_TASKS, ...), in this order;
/// without any, rank 0 of 1. srun and mpirun give no rendezvous address: MASTER_ADDR and
/// MASTER_PORT where they are set, else the first host of SLURM_STEP_NODELIST, or this machine
/// where all ranks are on it, and a port by the job's number. A process that sbatch, not srun,
/// started is a single process. Throws std::invalid_argument for a variable that is missing or no
/// number (names it).
RankInfo discover(const Lookup& variable);

/// discover() in this process's environment.
RankInfo discover();

/// "node[07-09,12],login" -> "node07". Exposed for tests.
std::string first_host(const std::string& slurm_list);

}  // namespace dimred::launch
