#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "pca/kernels.h"
#include "pca/kinds.h"
#include "pca/report.h"
#include "pca/source.h"
#include "support/communicator.h"

namespace dimred::pca {

struct FitOptions {
  std::int64_t components = 32;  // k >= 1; pca, shuffled: n - 1 >= k; span: n >= k, and 0 is n;
                                 // random: M >= k
  bool fewer_allowed = false;    // pca, shuffled: k is at most n - 1, where n - 1 < components
  double variance = 0;    // pca, shuffled of the whole: in (0, 1), k is the fewest components
                          // with more than this part of it, instead; 0: not asked for
  Kind kind = Kind::pca;  // what the rows are
  Blocks blocks = Blocks::whole;  // layers: k rows for each layer, P block-diagonal
  std::uint64_t seed = 0;         // of random and shuffled
  SnapshotRange snapshots;        // those used; n is their number
  std::filesystem::path gram;     // also write their Gram matrix here (.npy); empty: do not
  std::span<double> mean = {};    // [M] receives theirs, of this rank's columns; empty: not wanted;
                                  // not of kind random, which does not read them
  std::int64_t threads = 0;       // 0: all cores this process may use
  std::int64_t tile_bytes = 32 << 20;  // memory of all tiles together, >= 1 MiB; at least one tile
                                       // of n x 512 values is used
  KernelSet kernels = KernelSet::automatic;  // for tests and comparison
};

/// PCA by the method of snapshots: G = Wc Wc' in float64 over fixed blocks of 4096 columns added in
/// order, eigenpairs by LAPACKE_dsyevr, P = S^-1 V' Wc, written tile by tile to `output` (npy
/// [k, M] float32, C order; its name ends in .npy) with sidecar <output stem>.json (kind, blocks,
/// singular values, explained variance ratio, snapshot list, layout hash, digest of each block of
/// columns). Rows have norm 1, are orthogonal to 1e-6 (P P' is measured; above 2.5e-7, a second
/// pass orthonormalises by CholeskyQR), and their entry of largest magnitude is positive. The same
/// bits for any tile size and thread count. Two passes over W; memory: tiles + 24 n^2 bytes a
/// thread, never n x M. flops ~ n^2 M + 2 n k M + k^2 M.
///
/// Other kinds (pca/kinds.h) by the same passes. span: G = W W', not centred; its k leading rows,
/// at k = n the whole span (the subspace of Gram-Schmidt on W). random: W is k Gaussian rows
/// (pca/gaussian_source.h), P = L^-1 W with L L' = W W'; the snapshots give M and the layout only,
/// so one is enough. W W' is exact there, so the matrix has the same bits for any R, threads and
/// tile size on the same processors (others may differ by one rounding to float32). shuffled: the
/// finished PCA with its columns moved by shuffle_columns (pca/shuffle.h); its values are the
/// PCA's bit by bit.
/// Blocks::layers does all this for each entry of the layout by itself: P is block-diagonal, one
/// k x M file whose rows have norm 1 and sign + in each block; a block's rows beyond the directions
/// that its columns have (eigenvalue above 1e-12 of the largest; random: its number of columns) are
/// zero.
/// With `options.variance` the Gram matrix gives k before P is begun: the passes, and the bits, are
/// those of a fit of that k.
/// `options.gram` receives the Gram matrix of the centred snapshots used, [n, n] float64, whatever
/// the kind (span and random: by one more pass over W); it is complete before the matrix is.
///
/// An existing output is replaced only when the new one is complete and durable; its old sidecar
/// is deleted before the matrix is renamed and the new one renamed after, so that whatever a crash
/// leaves, a sidecar never stands beside a matrix that it does not describe.
/// With R ranks, on any hosts, each reads and writes its own columns only, whole digest blocks,
/// into the one file, but rank 0 writes what lies in pages that ranks share (pca/borders.h); rank 0
/// solves the eigenproblem and commits, and nobody returns before. The same bits for the same R on
/// the same processors. Another R adds the same partial Grams, B <= ceil(M / 4096) + 1 in a block,
/// in another order. Two orders differ by at most 2 (B - 1) u |x_i| |x_j| in G_ij, u = 2^-53, x =
/// rows of Wc; LAPACK's own error is some n u |G|: together d = 2 (B + n) u trace(G) in norm. So an
/// eigenvalue s_j^2 differs by at most d, a row of P by 2 d s_1 / (s_j gap_j), where gap_j is the
/// distance of s_j^2 from the nearest eigenvalue, and an entry by one rounding to float32 (2^-23 of
/// it) more; unless |P P' - I| is so close to 2.5e-7 that only one of the two needs the second
/// pass, which moves a row by k 2.5e-7 at most. An exception of one rank is thrown by all. Throws
/// std::invalid_argument("[pca::fit] needs n - 1 >= k, received n = 20, k = 32"), when the
/// snapshots span fewer than k directions (equal snapshots; says how many; a direction counts when
/// its eigenvalue is above n 2.2e-16 of the largest; with Blocks::layers only when they span none
/// at all), when layers or shuffled are asked of rows without a layout, hold a value that is not
/// finite (names the row), or are what the output would replace; std::runtime_error on I/O or
/// LAPACK failure. Nothing is left behind.
/// Sources: Sirovich, "Turbulence and the dynamics of coherent structures", 1987; span: Li
/// et al., "Trainable weight averaging", ICLR 2023.
FitReport fit(const SnapshotSource& source,
              const FitOptions& options,
              const std::filesystem::path& output,
              Communicator& communicator = alone());

/// A fit that wrote no file.
struct FitInMemory {
  FitReport report;
  std::string sidecar;  // what fit() writes beside the matrix
};

/// fit() into `matrix` [k, M], C order, of one process; with `options.variance` or `fewer_allowed`
/// it has room for the most rows that there can be, and report.components are written. Throws
/// as fit(); `matrix` then holds anything.
FitInMemory fit_in_memory(const SnapshotSource& source,
                          const FitOptions& options,
                          std::span<float> matrix);

/// fit() of the snapshots at `path` (as open_source): what stage 2 calls when no matrix is given.
FitReport fit_snapshots(const std::filesystem::path& path,
                        const FitOptions& options,
                        const std::filesystem::path& output,
                        Communicator& communicator = alone());
}  // namespace dimred::pca
