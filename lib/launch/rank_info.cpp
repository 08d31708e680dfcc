#include "launch/rank_info.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <optional>
#include <sstream>

#include "support/errors.h"
#include "support/text.h"

namespace dimred::launch {
namespace {

constexpr int largest_port = 65535;

std::optional<std::string> text_of(const Lookup& variable, const char* name) {
  const char* value = variable(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

int number_of(const Lookup& variable, const char* name) {
  const auto text = text_of(variable, name);
  require(text.has_value(), "[launch] needs the environment variable {}, which is not set", name);
  const auto number = number_in<int>(*text);
  require(number && *number >= 0,
          "[launch] needs a whole number in the environment variable {}, received {}",
          name,
          *text);
  return *number;
}

int number_or(const Lookup& variable, const char* name, int otherwise) {
  return text_of(variable, name) ? number_of(variable, name) : otherwise;
}

/// MASTER_PORT, else one of 20000 ports by the job, so that two jobs on a machine rarely use the
/// same; below the ports that Linux gives to programs asking for any (32768 and up).
int port_of(const Lookup& variable, const std::string& job) {
  constexpr int first = 12000;
  constexpr std::size_t count = 20000;
  const int other = first + static_cast<int>(std::hash<std::string>{}(job) % count);
  return number_or(variable, "MASTER_PORT", other);
}

RankInfo of_torchrun(const Lookup& variable) {
  RankInfo found{.rank = number_of(variable, "RANK"), .size = number_of(variable, "WORLD_SIZE")};
  found.local_rank = number_or(variable, "LOCAL_RANK", 0);
  found.local_size = number_or(variable, "LOCAL_WORLD_SIZE", 1);
  found.address = text_of(variable, "MASTER_ADDR").value_or("");
  found.agent_store = text_of(variable, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  found.run_id = text_of(variable, "TORCHELASTIC_RUN_ID").value_or("");
  // A rank alone asks the agent's store, too: whether a signal has stopped it before.
  if (found.size > 1 || found.agent_store) {
    require(!found.address.empty(),
            "[launch] WORLD_SIZE is set, but MASTER_ADDR is not set; set MASTER_ADDR to the host "
            "of rank 0");
    found.port = number_of(variable, "MASTER_PORT");
  }
  return found;
}

/// The tasks of the step's node of this number in Slurm's list: "4(x2),3" is 4, 4 and 3 of nodes 0,
/// 1 and 2.
int tasks_of_node(const std::string& list, int node) {
  std::istringstream entries(list);
  int tasks = 1;
  for (std::string entry; node >= 0 && std::getline(entries, entry, ',');) {
    const char* const end = entry.data() + entry.size();
    std::from_chars(entry.data(), end, tasks);
    int nodes = 1;
    const auto times = entry.find("(x");
    if (times != std::string::npos) std::from_chars(entry.data() + times + 2, end, nodes);
    node -= nodes;
  }
  return std::max(1, tasks);
}

RankInfo of_srun(const Lookup& variable, int size) {
  RankInfo found{.rank = number_of(variable, "SLURM_PROCID"),
                 .size = size,
                 .local_rank = number_or(variable, "SLURM_LOCALID", 0)};
  found.local_size = tasks_of_node(text_of(variable, "SLURM_STEP_TASKS_PER_NODE").value_or(""),
                                   number_or(variable, "SLURM_NODEID", 0));
  const auto nodes = text_of(variable, "SLURM_STEP_NODELIST");
  const auto master = text_of(variable, "MASTER_ADDR");
  // The list of nodes is sorted, whatever the order in which the user has given them to the ranks.
  require(
      master || found.local_size == size || text_of(variable, "SLURM_DISTRIBUTION") != "arbitrary",
      "[launch] srun uses --distribution=arbitrary; set MASTER_ADDR to the host of rank 0");
  found.address = master.value_or(nodes ? first_host(*nodes) : "127.0.0.1");
  found.run_id = text_of(variable, "SLURM_JOB_ID").value_or("") + "." +
                 text_of(variable, "SLURM_STEP_ID").value_or("");
  found.port = port_of(variable, found.run_id);
  return found;
}

RankInfo of_mpirun(const Lookup& variable) {
  RankInfo found{.rank = number_of(variable, "OMPI_COMM_WORLD_RANK"),
                 .size = number_of(variable, "OMPI_COMM_WORLD_SIZE"),
                 .local_rank = number_or(variable, "OMPI_COMM_WORLD_LOCAL_RANK", 0),
                 .local_size = number_or(variable, "OMPI_COMM_WORLD_LOCAL_SIZE", 1)};
  const auto master = text_of(variable, "MASTER_ADDR");
  require(
      master || found.local_size == found.size,
      "[launch] mpirun started ranks on several machines; set MASTER_ADDR to the host of rank 0");
  found.address = master.value_or("127.0.0.1");
  found.run_id = text_of(variable, "PMIX_NAMESPACE").value_or("");
  found.port = port_of(variable, found.run_id);
  return found;
}

/// Tasks of srun's step. A process without SLURM_STEP_NUM_TASKS is sbatch's own, which is one
/// whatever the job's SLURM_NTASKS.
std::optional<int> srun_tasks(const Lookup& variable) {
  if (!text_of(variable, "SLURM_PROCID") || !text_of(variable, "SLURM_STEP_NUM_TASKS"))
    return std::nullopt;
  return number_of(variable, "SLURM_STEP_NUM_TASKS");
}

RankInfo found_in(const Lookup& variable) {
  if (text_of(variable, "RANK") || text_of(variable, "WORLD_SIZE")) return of_torchrun(variable);
  // mpirun starts its daemons with srun, and its ranks inherit the daemon's SLURM variables.
  if (text_of(variable, "OMPI_COMM_WORLD_SIZE")) return of_mpirun(variable);
  if (const auto tasks = srun_tasks(variable)) return of_srun(variable, *tasks);
  return {};
}

}  // namespace

std::string first_host(const std::string& slurm_list) {
  const auto open = slurm_list.find('[');
  const auto comma = slurm_list.find(',');
  if (open == std::string::npos || comma < open) return slurm_list.substr(0, comma);
  const auto end = slurm_list.find_first_of(",-]", open);
  const auto close = slurm_list.find(']', open);
  require(end != std::string::npos && close != std::string::npos,
          "[launch] needs a list of hosts in SLURM_STEP_NODELIST, received {}",
          slurm_list);
  const auto after = slurm_list.find(',', close);
  const auto tail = slurm_list.substr(close + 1, after - close - 1);
  return slurm_list.substr(0, open) + slurm_list.substr(open + 1, end - open - 1) + tail;
}

RankInfo discover(const Lookup& variable) {
  auto found = found_in(variable);
  require(found.size >= 1 && found.rank < found.size,
          "[launch] needs 0 <= rank < size, received rank = {}, size = {}",
          found.rank,
          found.size);
  require(found.port <= largest_port, "[launch] needs a port <= 65535, received {}", found.port);
  found.local_size = std::clamp(found.local_size, 1, found.size);
  return found;
}

RankInfo discover() {
  return discover([](const char* name) {
    return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no other thread runs yet
  });
}

}  // namespace dimred::launch
