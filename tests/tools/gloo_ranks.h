#pragma once

#include <functional>

#include "distributed/communicator.h"

namespace dimred {

/// Runs `work` on `ranks` threads, each with a communicator of the real Gloo over loopback.
/// Rethrows the first failure when all have ended. node_size: ranks that are taken for one node's;
/// 0: all.
void on_gloo_ranks(int ranks,
                   const std::function<void(distributed::TensorCommunicator&)>& work,
                   int node_size = 0);

}  // namespace dimred
