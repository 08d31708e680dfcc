#include "pca/borders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "pca/pass.h"
#include "support/formatted.h"
#include "tests/pca/shared_problem.h"

namespace dimred::pca {
namespace {

using layout::ColumnRange;
using testing::test_columns;

constexpr std::int64_t rows_of_p = 5;

/// Seven whole digest blocks: some of 12 ranks have none.
ColumnRange own_of(int rank, int size) {
  const auto start = [&](int of) {
    return std::min(ceiling(test_columns, columns_per_digest) * of / size * columns_per_digest,
                    test_columns);
  };
  return {start(rank), start(rank + 1)};
}

/// The file as caches of whole pages leave it, of ranks each on a host of its own.
class Hosts {
 public:
  explicit Hosts(const MatrixShape& shape)
      : shape_(shape),
        file_((shape.header_bytes + shape.rows * shape.columns * 4) / 4 + shape.page_bytes) {}

  /// A host reads a page of zeros when it first writes to it, and writes the whole of it back.
  void write(int host, std::int64_t row, const ColumnRange& columns) {
    for (auto column = columns.begin; column < columns.end; ++column) {
      const auto at = shape_.header_bytes / 4 + row * shape_.columns + column;
      auto& page = caches_[host][at / page_values()];
      page.resize(page_values());
      page[at % page_values()] = value(row, column);
    }
  }

  void write_back(int host) {
    for (const auto& [page, values] : caches_[host])
      std::ranges::copy(values, file_.begin() + page * page_values());
    caches_.erase(host);
  }

  std::int64_t wrong() const {
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < shape_.rows; ++row)
      for (std::int64_t column = 0; column < shape_.columns; ++column)
        count +=
            file_[shape_.header_bytes / 4 + row * shape_.columns + column] != value(row, column);
    return count;
  }

 private:
  std::int64_t page_values() const { return shape_.page_bytes / 4; }
  float value(std::int64_t row, std::int64_t column) const {
    return static_cast<float>(1 + row * shape_.columns + column);
  }

  MatrixShape shape_;
  std::vector<float> file_;
  std::map<int, std::map<std::int64_t, std::vector<float>>> caches_;
};

/// Values that are lost when each rank writes `columns_of(borders, row, own)`, and rank 0 the rest
/// when it should.
template <class ColumnsOf>
std::int64_t lost(const MatrixShape& shape, int size, bool rest, ColumnsOf columns_of) {
  Hosts hosts(shape);
  for (int rank = 0; rank < size; ++rank) {
    const auto own = own_of(rank, size);
    const Borders borders(shape, own);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const ColumnRange written = columns_of(borders, row, own);
      hosts.write(rank, row, written);
      if (!rest) continue;
      hosts.write(0, row, {own.begin, written.begin});
      hosts.write(0, row, {written.end, own.end});
    }
  }
  for (int rank = 0; rank < size; ++rank) hosts.write_back(rank);
  return hosts.wrong();
}

TEST(Borders, LeaveNoPageToTwoHosts) {
  const auto trimmed = [](const Borders& borders, std::int64_t row, const ColumnRange& own) {
    return borders.trimmed(row, own);
  };
  const auto all = [](const Borders&, std::int64_t, const ColumnRange& own) { return own; };
  for (const std::int64_t page : {4096, 65536}) {
    for (const int size : {2, 3, 7, 12}) {
      SCOPED_TRACE(formatted("{} ranks, pages of {}", size, page));
      const MatrixShape shape{rows_of_p, test_columns, 128, page};
      EXPECT_EQ(lost(shape, size, true, trimmed), 0);
      EXPECT_GT(lost(shape, size, false, all), 0);  // the fault that they are made for
    }
  }
}

TEST(Borders, GiveBackWhatTheyKeepHoweverItIsCut) {
  const ColumnRange own = own_of(1, 3);
  Borders borders({rows_of_p, test_columns, 128, 4096}, own);
  std::vector<float> row(own.size());
  std::iota(row.begin(), row.end(), 1.F);
  constexpr std::int64_t width = 700;  // three pieces within a page, and across its end
  for (std::int64_t at = 0; at < own.size(); at += width) {
    const auto part = std::min(width, own.size() - at);
    borders.keep(3, own.begin + at, std::span<const float>(row).subspan(at, part));
  }
  std::vector<float> other(row.size());  // begins a hundred columns further left
  borders.fill(3, own.begin - 100, other);
  const auto inner = borders.trimmed(3, own);
  ASSERT_GT(inner.begin, own.begin);
  ASSERT_LT(inner.end, own.end);
  for (std::int64_t i = 0; i < std::ssize(other); ++i) {
    const auto column = own.begin - 100 + i;
    const bool kept = column >= own.begin && (column < inner.begin || column >= inner.end);
    ASSERT_EQ(other[i], kept ? row[i - 100] : 0) << column;
  }
  EXPECT_EQ(borders.trimmed(3, {inner.begin + 1, inner.end - 1}),
            (ColumnRange{inner.begin + 1, inner.end - 1}));
  EXPECT_EQ(borders.trimmed(3, {own.begin, inner.begin}).size(), 0);
  EXPECT_EQ(borders.trimmed(3, {0, test_columns}),
            (ColumnRange{0, test_columns}));  // others' are read
}

}  // namespace
}  // namespace dimred::pca
