#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "pca/source.h"

namespace dimred::pca {

/// Rows of `source` that lie in `range`, in order. Throws std::invalid_argument for a range that
/// makes no sense or holds no row (says which epochs there are).
std::vector<std::int64_t> rows_in(const SnapshotSource& source, const SnapshotRange& range);

/// Some rows of another source, which must outlive it.
class SelectedSource final : public SnapshotSource {
 public:
  SelectedSource(const SnapshotSource& source, std::vector<std::int64_t> rows);

  std::int64_t rows() const override { return std::ssize(rows_); }
  std::int64_t columns() const override { return source_.columns(); }
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override;
  std::vector<std::string> names() const override;
  std::vector<std::filesystem::path> files() const override { return source_.files(); }
  std::string layout_hash() const override { return source_.layout_hash(); }
  std::string layout_json() const override { return source_.layout_json(); }
  std::vector<std::int64_t> epochs() const override;
  std::int64_t bytes_verified() const override { return source_.bytes_verified(); }
  int item_bytes() const override { return source_.item_bytes(); }

 private:
  const SnapshotSource& source_;
  std::vector<std::int64_t> rows_;
};

}  // namespace dimred::pca
