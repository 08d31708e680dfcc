#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// `dimred pca`: snapshots to pca_mat.npy and pca_mat.json. Returns the exit code.
int pca_command(const std::vector<std::string>& arguments);

}  // namespace dimred::commands
