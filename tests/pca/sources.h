#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "checkpoints/snapshot.h"
#include "layout/layout.h"
#include "pca/source.h"
#include "tests/pca/matrices.h"

// Tools that the tests of open_source share.
namespace dimred::pca::testing {

/// All of W through read_tile, checked against read() of every part of every row.
std::vector<float> all_of(const SnapshotSource& source);

checkpoints::Snapshot snapshot_of(const layout::Layout& layout, const Eigen::RowVectorXd& row);

layout::Layout small_layout(std::int64_t width);

}  // namespace dimred::pca::testing
