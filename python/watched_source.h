#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "pca/source.h"

namespace dimred::python {

/// Thrown out of a fit whose caller was interrupted.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

/// The rows of another source, which must outlive it, as they pass by in a fit: counts them, and
/// ends it on demand.
class WatchedSource final : public pca::SnapshotSource {
 public:
  explicit WatchedSource(const pca::SnapshotSource& source)
      : SnapshotSource(source.info()), source_(source) {}

  void require_unchanged(std::int64_t row) const override { source_.require_unchanged(row); }
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    count(std::ssize(out));
    source_.read(row, begin, out);
  }
  void read_float64(std::int64_t row, std::int64_t begin, std::span<double> out) const override {
    count(std::ssize(out));
    source_.read_float64(row, begin, out);
  }
  void read_tile(std::int64_t begin,
                 std::int64_t width,
                 float* out,
                 std::int64_t stride) const override {
    count(rows() * width);
    source_.read_tile(begin, width, out, stride);
  }
  void read_float64_tile(std::int64_t begin,
                         std::int64_t width,
                         double* out,
                         std::int64_t stride) const override {
    count(rows() * width);
    source_.read_float64_tile(begin, width, out, stride);
  }

  /// Makes the next read throw Interrupted; from any thread.
  void stop() { stopped_ = true; }
  /// The part of the two passes of a fit that is done, in [0, 1]; from any thread.
  double fraction() const {
    return std::min(1.0,
                    static_cast<double>(values_) / (2.0 * static_cast<double>(rows() * columns())));
  }

 private:
  void count(std::int64_t values) const {
    if (stopped_) throw Interrupted();
    values_ += values;
  }

  const pca::SnapshotSource& source_;
  mutable std::atomic<std::int64_t> values_ = 0;
  std::atomic<bool> stopped_ = false;
};

}  // namespace dimred::python
