#pragma once

#include <torch/types.h>

#include <Eigen/Core>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "layout/layout.h"
#include "pca/shard_target.h"
#include "pca/source.h"

namespace dimred::soup {

/// A coefficient of each member in each block of columns, [members x blocks].
using Coefficients = Eigen::MatrixXd;

/// Weights of networks of one layout, read from their files by blocks of columns, so that the
/// memory that they take does not grow with their number.
class Members {
 public:
  /// Snapshots or weight files, as pca::open_files takes them; their parameters are found by name.
  /// Throws std::invalid_argument for fewer than two, and for another network's (says the first
  /// name that differs); std::runtime_error for a damaged file.
  Members(std::vector<std::filesystem::path> files, const layout::Layout& layout);

  std::int64_t count() const { return source_->rows(); }
  const std::vector<std::string>& names() const { return source_->info().names; }

  /// Columns in files of each parameter; or one block of all.
  const std::vector<layout::ColumnRange>& layers() const { return layers_; }
  std::vector<layout::ColumnRange> whole() const { return {{0, source_->columns()}}; }

  /// Throws std::runtime_error for a value that is not finite (file and parameter) and
  /// std::invalid_argument for two members with the same weights. One reading of all files.
  void check_values() const;

  /// Products (w_i - w_0)'(w_j - w_0) in each block, [members x members] in float64; the same bits
  /// for any number of threads. One reading of all files.
  std::vector<Eigen::MatrixXd> products(const std::vector<layout::ColumnRange>& blocks) const;

  /// (w_i - w_0)'v in each block, for v [memory_size]; `scratch` [memory_size] on the same device
  /// is overwritten. One reading of all files.
  Coefficients products_with(const torch::Tensor& v,
                             torch::Tensor scratch,
                             const std::vector<layout::ColumnRange>& blocks) const;

  /// `memory` [memory_size] <- the sum of members with their coefficients, added in float64. One
  /// reading of the files whose coefficients are not 0.
  void combine(const Coefficients& coefficients,
               const std::vector<layout::ColumnRange>& blocks,
               torch::Tensor memory) const;

 private:
  std::string parameter_at(std::int64_t column) const;
  void require_finite(std::int64_t member, std::int64_t begin, std::span<const float> values) const;

  std::unique_ptr<pca::SnapshotSource> source_;
  layout::Layout layout_;  // with the files' offsets
  pca::ShardTarget target_;
  std::vector<layout::ColumnRange> layers_;
  std::int64_t threads_;
};

}  // namespace dimred::soup
