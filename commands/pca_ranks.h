#pragma once

#include "distributed/communicator.h"
#include "pca/ranks.h"

namespace dimred::commands {

/// A communicator, which must outlive it, as the torch-free PCA sees it.
pca::Ranks pca_ranks(distributed::Communicator& communicator);

}  // namespace dimred::commands
