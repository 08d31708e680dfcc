#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "pca/basis.h"
#include "pca/fit_options.h"
#include "pca/report.h"
#include "pca/source.h"
#include "support/communicator.h"

namespace dimred::pca {

/// The basis of a fit, by the method of snapshots; docs/explanation/pca.md has the algorithm, the
/// error bound over ranks and what a crash leaves. G = Wc Wc' in float64, eigenpairs by
/// LAPACKE_dsyevr, P = S^-1 V' Wc, written tile by tile to `output` (npy [k, M] float32, C order;
/// its name ends in .npy) with the header in <stem>.json. P's rows have norm 1, are orthogonal to
/// 1e-6 (measured), their entry of largest magnitude is positive. Other kinds: pca/kinds.h.
/// Blocks::layers: each entry of the layout by itself, rows of zeros where its columns have fewer
/// than k directions (eigenvalue above 1e-12 of the largest). Gives the same bits for any tile size
/// and thread count, and for the same number of ranks; each rank reads and writes its own columns,
/// and nobody returns before rank 0 has committed. Returns header and report, without values. Two
/// passes over W; memory: tiles + 24 n^2 bytes a thread, never n x M. flops ~ n^2 M + 2 n k M + k^2
/// M. Throws, on every rank what one meets, std::invalid_argument("[pca] needs n - 1 >= k,
/// received n = 20, k = 32"), when the snapshots span fewer than k directions, hold a value that is
/// not finite (names the row), lack the layout that layers and shuffled need, or are what the
/// output would replace; std::runtime_error on I/O or LAPACK failure. Nothing is left behind.
/// Sources: Sirovich, "Turbulence and the dynamics of coherent structures", 1987; span: Li et al.,
/// "Trainable weight averaging", ICLR 2023.
Basis fit(const SnapshotSource& source,
          const FitOptions& options,
          const std::filesystem::path& output,
          Communicator& communicator = alone());

/// fit() into `matrix` [k, M], C order, of one process; with `options.variance` or `fewer_allowed`
/// it has room for the most rows that there can be, and header.components are written. Throws
/// as fit(); `matrix` then holds anything.
Basis fit_in_memory(const SnapshotSource& source,
                    const FitOptions& options,
                    std::span<float> matrix);

/// fit() of the snapshots at `path` (as open_source): what stage 2 calls when no matrix is given.
Basis fit_snapshots(const std::filesystem::path& path,
                    const FitOptions& options,
                    const std::filesystem::path& output,
                    Communicator& communicator = alone());
}  // namespace dimred::pca
