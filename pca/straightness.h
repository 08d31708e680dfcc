#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <vector>

#include "pca/walk_statistics.h"

namespace dimred::pca {

/// S = |x_N - x_0|^2 / sum |increment|^2 of a trajectory; 1 for a walk, S - 1 estimates the drift's
/// part over the noise's.
struct Straightness {
  AgainstWalk walk;       // p-values are two-sided
  double p_momentum = 1;  // the chance, two-sided, that a walk whose neighbours have the cosine
                          // given is as straight: S of increments AR(c) has (1 + c) / (1 - c) times
                          // the mean and spread of independent ones
  bool all_alike = false;  // every draw of signs gives the same S, as for orthogonal increments
};

/// S of T trajectories of N increments each, from their Gram matrices [N x N] (trace > 0) and
/// cosines [T], which the same signs test: s'Gs is linear in the products s_i s_j, so that many
/// draws and trajectories make one product of matrices. Cost: B T N^2, for blocks of b increments
/// B T (N / b)^2; memory: 4 N^2 bytes a trajectory, and max(32 MiB, 64 N^2 bytes) a thread.
std::vector<Straightness> straightness_of_all(std::span<const Eigen::MatrixXd> grams,
                                              std::span<const double> cosines,
                                              const WalkNull& null,
                                              std::int64_t threads);

}  // namespace dimred::pca
