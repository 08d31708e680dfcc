#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "layout/shard.h"
#include "pca/fit.h"
#include "pca/passes.h"
#include "pca/source.h"

namespace dimred::pca {

/// What a fit works on, settled before anything is read.
struct Problem {
  std::unique_ptr<SnapshotSource> selected;   // only where a range leaves some out
  std::unique_ptr<SnapshotSource> gaussian;   // only of kind random
  const SnapshotSource* snapshots = nullptr;  // those in range
  PassPlan plan;                              // of the rows that are combined, over all columns
  PassPlan centred;                           // of the snapshots
  std::vector<layout::ColumnRange> layers;    // columns of the layout's entries; empty: no layout
  std::vector<layout::ColumnRange> blocks;    // of P
};

/// Throws what fit() refuses, on every rank alike. `source` and `options` must outlive the result.
Problem plan_fit(const SnapshotSource& source,
                 const FitOptions& options,
                 const std::filesystem::path& output,
                 const Ranks& ranks);

}  // namespace dimred::pca
