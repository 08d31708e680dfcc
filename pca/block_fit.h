#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "layout/shard.h"
#include "pca/components.h"
#include "pca/kinds.h"

namespace dimred::pca {

/// The parts that the blocks of one fit share.
struct BlockPlan {
  Pass pass;  // over all of this rank's columns
  Kind kind = Kind::pca;
  bool all_rows = true;  // refuse fewer directions than k; otherwise rows of zeros
  Communicator* communicator = nullptr;
  MatrixTarget matrix;
  std::span<const double> gram =
      {};  // of the one block, summed over the ranks; empty: not measured
};

/// One block of columns of P. The same on every rank, but for the digests and bytes.
struct BlockFit {
  std::int64_t rows = 0;          // of k that are not zero, the first ones
  std::vector<double> variances;  // [k] eigenvalues of the Gram matrix; 0 beyond `rows`
  double total = 0;               // sum of all its eigenvalues
  std::vector<double> gram;       // as gram_matrix, of all ranks' columns
  double orthonormality_error = 0;
  bool reorthonormalized = false;
  std::int64_t bytes_read = 0;  // by this rank, of the rows that are combined
  double seconds_gram = 0, seconds_components = 0;
  std::vector<std::string> digests;  // this rank's, as fix_signs
};

/// Spectrum of the block's columns, then P of them in the file, its signs fixed.
/// Throws as fit().
BlockFit fit_block(const BlockPlan& plan, const layout::ColumnRange& columns);

}  // namespace dimred::pca
