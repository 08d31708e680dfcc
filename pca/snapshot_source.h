#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/errors.h"

namespace dimred::pca {

/// Facts about a snapshot matrix W [n x M] beside its values.
struct SourceInfo {
  std::int64_t rows = 0, columns = 0;        // n, M
  std::vector<std::string> names;            // file of each row, or "FILE.npy[3]"; for pca_mat.json
                                             // and error texts
  std::vector<std::filesystem::path> files;  // behind it, which an output must not replace
  std::string layout_hash, layout_json;      // empty when the rows carry none (a plain .npy)
  std::vector<std::int64_t> epochs;   // of each row, by its file or the file's name; empty when
                                      // these say none, as of .npy
  std::int64_t bytes_verified = 0;    // read for digests before the fit, by this rank
  double item_bytes = 4;              // of a value in its file, on average
  std::vector<std::string> left_out;  // of the first row, as training state; rank 0 knows it
  std::vector<std::string> remarks;   // what was left out of the series; rank 0 knows it
  std::string unordered;              // why the rows have no order; empty: they have one
  bool float64 = false;               // some values are: a fit reads them by read_float64
  bool from_first = false;            // rows are less a snapshot before them (pca/from_first.h)
};

/// The snapshot matrix, rows in the order taken; read by columns, so that it may be larger than
/// memory. Reading is safe from several threads at once.
class SnapshotSource {
 public:
  explicit SnapshotSource(SourceInfo info) : info_(std::move(info)) {}
  virtual ~SnapshotSource() = default;
  const SourceInfo& info() const { return info_; }
  std::int64_t rows() const { return info_.rows; }
  std::int64_t columns() const { return info_.columns; }
  /// Throws std::runtime_error where a row's file has been written or replaced since before its
  /// first byte was read, on the rank that verified it: passes would be of different snapshots.
  virtual void require_unchanged(std::int64_t /*row*/) const {}
  /// W[row, begin : begin + out.size()], rounded to float32. Throws std::runtime_error on a read
  /// error, and where values do not have the digest that their file has of them.
  virtual void read(std::int64_t row, std::int64_t begin, std::span<float> out) const = 0;
  /// W[:, begin : begin + width] into out [n x width], rows `stride` apart. One read() a row,
  /// unless the file's order makes another way faster.
  virtual void read_tile(std::int64_t begin,
                         std::int64_t width,
                         float* out,
                         std::int64_t stride) const {
    for (std::int64_t i = 0; i < rows(); ++i) {
      read(i, begin, {out + i * stride, static_cast<std::size_t>(width)});
    }
  }
  /// read() without rounding. Only where info().float64.
  virtual void read_float64(std::int64_t, std::int64_t, std::span<double>) const {
    check(false, "only a source of float64 values is asked for them");
  }
  /// read_tile() without rounding. Only where info().float64.
  virtual void read_float64_tile(std::int64_t begin,
                                 std::int64_t width,
                                 double* out,
                                 std::int64_t stride) const {
    for (std::int64_t i = 0; i < rows(); ++i) {
      read_float64(i, begin, {out + i * stride, static_cast<std::size_t>(width)});
    }
  }

 private:
  SourceInfo info_;
};

/// The values of a tile in the type that a pass works in.
inline void read_tile(const SnapshotSource& source,
                      std::int64_t begin,
                      std::int64_t width,
                      float* out,
                      std::int64_t stride) {
  source.read_tile(begin, width, out, stride);
}
inline void read_tile(const SnapshotSource& source,
                      std::int64_t begin,
                      std::int64_t width,
                      double* out,
                      std::int64_t stride) {
  source.read_float64_tile(begin, width, out, stride);
}

/// Which snapshots of a source a fit uses. Epochs are SourceInfo::epochs; snapshots without have
/// their places in the order taken, counted from 1.
struct SnapshotRange {
  std::int64_t from = 0;  // first epoch; 0: from the first snapshot on
  std::int64_t to = 0;    // last epoch, included; 0: to the last snapshot
  std::int64_t skip = 0;  // snapshots left out after each one taken, from the first in range on
  bool operator==(const SnapshotRange&) const = default;
};

}  // namespace dimred::pca
