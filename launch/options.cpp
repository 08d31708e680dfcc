#include "launch/options.h"

namespace dimred::launch {

void add_options(OptionTable& table, ConnectOptions& options) {
  constexpr double longest = 1e6;  // eleven days
  table.group("Ranks (found in the environment of torchrun, srun or mpirun)");
  table.add_choice(
      "backend",
      &options.backend,
      "of collectives on a GPU; auto: nccl where it is built in, gloo through host memory else",
      {{"auto", Backend::automatic}, {"gloo", Backend::gloo}, {"nccl", Backend::nccl}});
  table.add("rendezvous_timeout",
            &options.rendezvous_timeout,
            "seconds for all ranks to come",
            {.low = 0, .high = longest, .low_open = true});
  table.add("collective_timeout",
            &options.collective_timeout,
            "seconds that a healthy rank may let the others wait",
            {.low = 0, .high = longest, .low_open = true});
  table.add("heartbeat_timeout",
            &options.heartbeat_timeout,
            "seconds without a sign of life after which a rank is dead and all end; 0: never",
            between(0, longest));
}

}  // namespace dimred::launch
