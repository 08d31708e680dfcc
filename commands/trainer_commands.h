#pragma once

#include <string>
#include <vector>

// The subcommands that need a network; each returns the exit code (130 or 143 after a stop signal).
namespace dimred::commands {

/// Conventional training with snapshots.
int stage1_command(const std::vector<std::string>& arguments);

/// `dimred stage1 --find_learning_rate FILE`: the loss as the rate rises, as CSV, and what follows
/// from it.
int learning_rate_command(const std::vector<std::string>& arguments);

/// Descent in the subspace of a projection matrix; without one the PCA runs first.
int stage2_command(const std::vector<std::string>& arguments);

/// Test loss and accuracy of a snapshot, state, run, safetensors file, or the mean of a folder of
/// snapshots.
int evaluate_command(const std::vector<std::string>& arguments);

/// Weights and a signature in a new version folder.
int export_command(const std::vector<std::string>& arguments);

/// Classes of image files, by a run's or an export's network.
int predict_command(const std::vector<std::string>& arguments);

/// Whether pairs of images show the same, by their embeddings: accuracy, TAR at FAR, ROC.
int verify_command(const std::vector<std::string>& arguments);

/// `dimred inspect --landscape RUN --pca_mat FILE`: the loss in the plane of two components, as
/// CSV.
int landscape_command(const std::vector<std::string>& arguments);

}  // namespace dimred::commands
