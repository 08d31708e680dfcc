#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/communicator.h"
#include "support/errors.h"

namespace dimred::pca {

/// Facts about a snapshot matrix W [n x M] beside its values.
struct SourceInfo {
  std::int64_t rows = 0, columns = 0;        // n, M
  std::vector<std::string> names;            // file of each row, or "FILE.npy[3]"; for pca_mat.json
                                             // and error texts
  std::vector<std::filesystem::path> files;  // behind it, which an output must not replace
  std::string layout_hash, layout_json;      // empty when the rows carry none (a plain .npy)
  std::vector<std::int64_t> epochs;   // of each row, counted from 1; empty when the rows carry
                                      // none (.npy, safetensors)
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

/// Which snapshots of a source a fit uses. Epochs are the snapshots' own; snapshots without have
/// their places in the order taken, counted from 1.
struct SnapshotRange {
  std::int64_t from = 0;  // first epoch; 0: from the first snapshot on
  std::int64_t to = 0;    // last epoch, included; 0: to the last snapshot
  std::int64_t skip = 0;  // snapshots left out after each one taken, from the first in range on
  bool operator==(const SnapshotRange&) const = default;
};

/// The rows of `source`, which must outlive it, that lie in `range`, in order. Throws
/// std::invalid_argument for a range that makes no sense or holds no row (says which epochs there
/// are).
std::unique_ptr<SnapshotSource> selected(const SnapshotSource& source, const SnapshotRange& range);

/// The snapshots of a folder, run, list or pattern (checkpoints/series.h), by their steps where
/// their names have some, those of a list in its order; or the rows of one n x M .npy (C or Fortran
/// order, float32 or float64). Weight files (PyTorch's, MindSpore's, safetensors, whole or in
/// shards that an index names) give the weights in file order (checkpoints/weight_names.h); the
/// sidecar says which order, and load_basis finds each by its name. Digests are verified here, in
/// parallel; with several ranks, each verifies every R-th file of rank 0's list, and what one of
/// them throws, all throw. Those of the values of snapshots are verified by whoever reads these.
/// Throws as checkpoints::members, std::invalid_argument when empty, mixed, of different layouts
/// (names the file and the first entry that differs), std::runtime_error when a file is damaged.
std::unique_ptr<SnapshotSource> open_source(const std::filesystem::path& path,
                                            Communicator& communicator = alone());

/// open_source of an explicit list of snapshots, weight files or checkpoint folders, the same on
/// every rank.
std::unique_ptr<SnapshotSource> open_files(const std::vector<std::filesystem::path>& files,
                                           Communicator& communicator = alone());

/// The rows of a 2-D .npy. `place` starts the error texts.
/// Throws as checkpoints::read_npy_header, and std::invalid_argument unless it has 2 dimensions,
/// both at least 1.
std::unique_ptr<SnapshotSource> npy_matrix(const std::filesystem::path& path,
                                           std::string_view place);

/// checkpoints::set_default_python() for the readers in this shared library, which are copies of
/// its own.
void set_default_python(const std::string& program);

}  // namespace dimred::pca
