#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "layout/layout.h"
#include "tests/pca/matrices.h"
#include "tests/tools/thread_ranks.h"

// Tools that the tests of several ranks share: one problem, and sources that watch what is read.
namespace dimred::pca::testing {

// 6 digest blocks of 16384 columns and a rest: 7 blocks, so that 7 ranks have one each and of 12
// ranks 5 have none.
inline constexpr std::int64_t test_columns = 6 * 16384 + 5001;
inline constexpr std::int64_t test_rows = 13;
inline constexpr std::int64_t components = 5;

/// Snapshots with a spectrum that falls, so that rows of P are well determined, and a mean.
inline const SnapshotSource& snapshots() {
  static const auto source = [] {
    Matrix matrix = random_matrix(test_rows, test_columns, 1);
    for (int i = 0; i < test_rows; ++i) matrix.row(i) *= std::pow(0.7, i);
    matrix.array() += 3;
    return source_of(matrix);
  }();
  return *source;
}

inline layout::Layout one_vector(std::int64_t columns) {
  std::vector<layout::Parameter> parameters(1);
  parameters[0].name = "w";
  parameters[0].shape = {columns};
  return layout::make_layout(parameters);
}

/// Every rank's error, which has to be the same on all; "no error" when none threw.
inline std::string common_error(const std::vector<std::string>& outcomes) {
  for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, outcomes.front());
  return outcomes.front().empty() ? "no error" : outcomes.front();
}

/// Counts what is read, and does `at_read` before.
class WatchedSource final : public SnapshotSource {
 public:
  WatchedSource() : SnapshotSource(snapshots().info()) {}
  std::function<void(std::int64_t row, std::int64_t begin, std::int64_t end)> at_read =
      [](std::int64_t, std::int64_t, std::int64_t) {};
  mutable std::atomic<std::int64_t> values = 0;

  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    at_read(row, begin, begin + std::ssize(out));
    values += std::ssize(out);
    snapshots().read(row, begin, out);
  }
};

}  // namespace dimred::pca::testing
