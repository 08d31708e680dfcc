#pragma once

#include "options/options.h"

namespace dimred::launch {

enum class Backend { automatic, gloo, nccl };

/// How the ranks find each other and watch each other's heartbeats.
struct ConnectOptions {
  Backend backend =
      Backend::automatic;            // nccl for vectors on a GPU where it is built in, else gloo
  double rendezvous_timeout = 300;   // seconds for all ranks to come
  double collective_timeout = 1800;  // seconds that a healthy rank may let the others wait
  double heartbeat_timeout = 6;      // seconds of silence after which a rank is dead; 0: never
  bool check_options = false;        // ends where the ranks would be started
};

inline void add_options(OptionTable& table, ConnectOptions& options) {
  constexpr double longest = 1e6;  // eleven days
  table.group("Ranks (found in the environment of torchrun, srun or mpirun)", {.may_change = true});
  table.add_choice(
      "backend",
      &options.backend,
      "library for sums between GPUs; auto: nccl if built in, else gloo through host memory",
      {{"auto", Backend::automatic}, {"gloo", Backend::gloo}, {"nccl", Backend::nccl}});
  table.add("rendezvous_timeout",
            &options.rendezvous_timeout,
            "time limit in seconds until all ranks have connected",
            positive(longest));
  table.add("collective_timeout",
            &options.collective_timeout,
            "end all ranks after a rank has waited X seconds for a slow rank",
            positive(longest));
  table.add("heartbeat_timeout",
            &options.heartbeat_timeout,
            "end all ranks after a rank is silent for X seconds; 0: never",
            between(0, longest));
  table.add("check_options", &options.check_options, "check the options and exit");
}

}  // namespace dimred::launch
