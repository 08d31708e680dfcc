#pragma once

#include <memory>
#include <string>

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

/// A line of a backend's error: the first and, as NCCL has its reason there, the one behind "Last
/// error:".
std::string error_line(const std::string& text);

}  // namespace dimred::distributed
