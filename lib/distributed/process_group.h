#pragma once

#include <memory>

#include "distributed/backends.h"
#include "distributed/communicator.h"

namespace dimred::distributed {

/// The communicator of a group over its backends. Ranks lie node by node, `node_size` on each,
/// which divides `size`; exchanges take two steps then, within nodes and between them. node_size =
/// size: one step.
std::unique_ptr<TensorCommunicator> process_group(Backends backends,
                                                  int rank,
                                                  int size,
                                                  int node_size);

}  // namespace dimred::distributed
