#pragma once

#include "distributed/columns.h"
#include "stage2/subspace.h"

namespace dimred::stage2 {

/// What a method works in, and with whom.
struct Place {
  Subspace subspace;
  distributed::Communicator& communicator;
  const distributed::Columns& columns;
  torch::Tensor own_columns;  // any vector of them: length, device
};

}  // namespace dimred::stage2
