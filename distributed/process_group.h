#pragma once

#include <memory>

#include "distributed/backends.h"
#include "distributed/communicator.h"

namespace dimred::distributed {

/// The communicator of a group over its backends.
std::unique_ptr<Communicator> process_group(Backends backends, int rank, int size);

}  // namespace dimred::distributed
