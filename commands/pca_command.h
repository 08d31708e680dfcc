#pragma once

#include <string>
#include <vector>

#include "pca/ranks.h"

namespace dimred::commands {

/// `dimred pca`: snapshots to pca_mat.npy and pca_mat.json. Returns the exit code. With several
/// ranks, rank 0 prints, and what one throws, all throw.
int pca_command(const std::vector<std::string>& arguments, const pca::Ranks& ranks = {});

}  // namespace dimred::commands
