#pragma once

#include "support/options.h"

namespace dimred::launch {

enum class Backend { automatic, gloo, nccl };

/// How the ranks find each other and watch each other's heartbeats.
struct ConnectOptions {
  Backend backend =
      Backend::automatic;            // nccl for vectors on a GPU where it is built in, else gloo
  double rendezvous_timeout = 300;   // seconds for all ranks to come
  double collective_timeout = 1800;  // seconds that a healthy rank may let the others wait
  double heartbeat_timeout = 6;      // seconds of silence after which a rank is dead; 0: never
};

void add_options(OptionTable& table, ConnectOptions& options);

}  // namespace dimred::launch
