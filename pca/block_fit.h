#pragma once

#include <memory>
#include <vector>

#include "layout/shard.h"
#include "pca/basis.h"
#include "pca/components.h"
#include "pca/fit_options.h"
#include "pca/snapshot_source.h"

namespace dimred::pca {

/// A fit under way: its task, determined before anything is read, and what it has found so far.
struct Fit {
  FitOptions options;
  Communicator* communicator = nullptr;
  const SnapshotSource* snapshots = nullptr;  // those in range
  std::unique_ptr<SnapshotSource> selection;  // only where a range leaves some snapshots out
  std::unique_ptr<SnapshotSource> gaussian;   // only of kind random
  Pass pass;                                  // over the rows that are combined, all columns
  std::vector<layout::ColumnRange> layers;    // columns of the layout's entries; empty: no layout
  MatrixTarget matrix;
  std::vector<double> gram;  // of the one block, over all ranks, where k follows from it
  // The sums over the blocks done:
  std::vector<double> centred_gram;       // of the centred snapshots, lower triangle
  std::vector<double> variances;          // [k] eigenvalues of the Gram matrices
  double total_variance = 0;              // sum of all their eigenvalues
  std::unique_ptr<AtomicFile> gram_file;  // of centred_gram, on rank 0; without its name until P is
  Basis basis;
};

/// Adds one block of columns to the fit: its spectrum, then P of them in fit.matrix, its signs
/// fixed. Returns the digests of this rank's digest blocks (fix_signs). Throws as fit().
std::vector<std::string> fit_block(Fit& fit, const layout::ColumnRange& columns);

}  // namespace dimred::pca
