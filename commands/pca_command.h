#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/options.h"
#include "support/communicator.h"

namespace dimred::commands {

/// Gives `work` the ranks of this process, all with the options of `table`; returns its exit code.
using RunOnRanks = std::function<int(const OptionTable& table,
                                     const launch::ConnectOptions& options,
                                     const std::function<int(Communicator&)>& work)>;

/// `dimred pca`: snapshots to pca_mat.npy and pca_mat.json. Returns the exit code. With several
/// ranks, rank 0 prints, and all ranks throw what one throws. Without `run_on_ranks`, one rank.
int pca_command(const std::vector<std::string>& arguments, const RunOnRanks& run_on_ranks = {});

}  // namespace dimred::commands
