#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include "pca/device.h"
#include "pca/device_places.h"
#include "tests/pca/device/host_device.h"
#include "tests/pca/matrices.h"

// What the device's kernels make of one tile after another, through pca/device.h.
namespace dimred::pca {
namespace {

using testing::Matrix;

constexpr std::int64_t kTileColumns = 3072;  // three blocks of sums

/// W in tiles, the first of which begins at column `first` and ends where a block of sums does; the
/// pass is started.
void submit(Device& device, const Matrix& w, std::int64_t first, std::int64_t width) {
  std::int64_t index = 0;
  std::int64_t size = 0;
  for (std::int64_t at = 0; at < w.cols(); at += size, ++index) {
    size = std::min(at == 0 ? width - first % 1024 : width, w.cols() - at);
    float* tile = device.host_tile(index % 2);
    std::fill_n(tile, w.rows() * kTileColumns, std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t i = 0; i < w.rows(); ++i)
      for (std::int64_t c = 0; c < size; ++c)
        tile[i * kTileColumns + c] = static_cast<float>(w(i, at + c));
    device.submit(index % 2, {index, first + at, size});
  }
}

DeviceSums gram_of(const Matrix& w,
                   bool centred,
                   std::int64_t first = 0,
                   std::int64_t width = kTileColumns) {
  const auto device = open_device({.rows = w.rows(),
                                   .components = 1,
                                   .tile_columns = kTileColumns,
                                   .slots = 2,
                                   .columns = w.cols()});
  device->start_gram(centred);
  submit(*device, w, first, width);
  return device->finish();
}

double entry(const DeviceSums& sums, std::int64_t i, std::int64_t j) {
  return sums.lower[static_cast<std::size_t>(i * sums.stride + j)];
}

using Exact = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Rows as the device has them: float32, in more digits.
Exact exact(const Matrix& w, bool centred) {
  Exact x = w.cast<float>().cast<long double>();
  if (centred) x.rowwise() -= (x.colwise().sum() / static_cast<long double>(w.rows())).eval();
  return x;
}

/// (1024 + B) u |x_i| |x_j| as stated, twice where a processor rounds products, too; and the
/// centring's: u |w| a value, of both factors.
void expect_gram(const Matrix& w, bool centred) {
  const auto sums = gram_of(w, centred);
  ASSERT_EQ(sums.not_finite, -1);
  const Exact x = exact(w, centred);
  const Exact of_means = w.cwiseAbs().cast<long double>();
  const long double terms = 1024 + static_cast<long double>(w.cols()) / 1024 + 1;
  for (std::int64_t i = 0; i < w.rows(); ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      const long double bound =
          2 * terms * x.row(i).norm() * x.row(j).norm() +
          static_cast<long double>(w.rows()) *
              (of_means.row(i).norm() * x.row(j).norm() + of_means.row(j).norm() * x.row(i).norm());
      EXPECT_LE(std::abs(entry(sums, i, j) - x.row(i).dot(x.row(j))), 0x1p-53L * bound)
          << i << ' ' << j;
    }
  }
}

TEST(DeviceKernels, MakeTheGramMatrixWithinItsBound) {
  for (const std::int64_t rows : {1, 2, 63, 64, 65, 130})
    expect_gram(testing::random_matrix(rows, 700, 1), true);
  for (const std::int64_t columns : {1, 3, 31, 33, 1023, 1025, 4000})
    expect_gram(testing::random_matrix(7, columns, 2), true);
  expect_gram(testing::random_matrix(5, 2000, 3), false);
}

TEST(DeviceKernels, TakeRowsOfAnyScale) {
  Matrix w = testing::random_matrix(9, 1500, 4);
  for (std::int64_t i = 0; i < 9; ++i) w.row(i) *= std::pow(10.0, 5 * i - 20);  // 1e-20 to 1e20
  expect_gram(w, false);
  expect_gram(w, true);
}

TEST(DeviceKernels, AreExactOnIntegers) {
  Matrix w = Matrix::NullaryExpr(66, 5000, [](Eigen::Index i, Eigen::Index j) {
    return static_cast<double>((i * 7 + j * 3) % 11 - 5);
  });
  const auto sums = gram_of(w, false);
  const Matrix expected = w * w.transpose();
  for (std::int64_t i = 0; i < 66; ++i)
    for (std::int64_t j = 0; j <= i; ++j) ASSERT_EQ(entry(sums, i, j), expected(i, j));
}

TEST(DeviceKernels, SumFixedBlocksOfColumnsWhateverTheTiles) {
  const Matrix w = testing::random_matrix(6, 6000, 5);
  // Column 0 of w is the 900th of the snapshots: its first block ends after 124 columns.
  const auto expected = gram_of(w, true, 900).lower;
  EXPECT_EQ(gram_of(w, true, 900, 1024).lower, expected);
  EXPECT_NE(gram_of(w, true, 901).lower, expected);
}

TEST(DeviceKernels, TakeAFullTileThatBeginsWithinABlock) {
  const Matrix w = testing::random_matrix(6, kTileColumns, 5);
  // One tile over four blocks, and two tiles.
  EXPECT_EQ(gram_of(w, true, 1023, 1023 + kTileColumns).lower, gram_of(w, true, 1023).lower);
}

TEST(DeviceKernels, NameTheFirstColumnThatIsNotFinite) {
  Matrix w = testing::random_matrix(4, 4000, 6);
  w(2, 3500) = std::numeric_limits<double>::quiet_NaN();
  w(1, 3600) = std::numeric_limits<double>::infinity();
  EXPECT_EQ(gram_of(w, true, 1000).not_finite, 4500);
  EXPECT_EQ(gram_of(w, false, 1000).not_finite, 4500);
  w(2, 3500) = 0;
  EXPECT_EQ(gram_of(w, true).not_finite, 3600);
}

TEST(DeviceKernels, CombineRowsAndMeasureWhatTheyMade) {
  for (const auto& [rows, components, columns] :
       {std::array{3, 1, 100}, std::array{33, 32, 2049}, std::array{70, 65, 1000}}) {
    const Matrix w = testing::random_matrix(rows, columns, 7);
    const Matrix c = testing::random_matrix(rows, components, 8);
    const std::int64_t stride = (components + 7) / 8 * 8;
    std::vector<double> combinations(static_cast<std::size_t>(rows * stride), 1e300);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < components; ++j)
        combinations[static_cast<std::size_t>(i * stride + j)] = c(i, j);
    const auto device = open_device({.rows = rows,
                                     .components = components,
                                     .tile_columns = kTileColumns,
                                     .slots = 2,
                                     .columns = columns});
    device->start_components(combinations, stride);
    submit(*device, w, 0, kTileColumns);
    const float* made = device->components(0);
    const Exact products = c.transpose().cast<long double>() * exact(w, false);
    Matrix p(components, columns);
    for (std::int64_t j = 0; j < components; ++j) {
      for (std::int64_t column = 0; column < columns; ++column) {
        p(j, column) = made[j * kTileColumns + column];
        // Rounded once to float32, from a sum of `rows` products in float64.
        ASSERT_NEAR(p(j, column),
                    static_cast<double>(products(j, column)),
                    0x1p-24 * std::abs(static_cast<double>(products(j, column))) + 1e-12);
      }
    }
    const auto sums = device->finish();
    const Matrix expected = p * p.transpose();
    for (std::int64_t i = 0; i < components; ++i)
      for (std::int64_t j = 0; j <= i; ++j)
        EXPECT_NEAR(
            entry(sums, i, j), expected(i, j), 1e-12 * std::sqrt(expected(i, i) * expected(j, j)));
  }
}

TEST(TilePlaces, HoldATileUntilAnotherHasItsPlace) {
  const DeviceShape shape{.rows = 1, .tile_columns = 1024, .slots = 2, .columns = 5000};
  TilePlaces places(shape, 6 * 1024 * 4);
  EXPECT_EQ(places.count(), 6);
  const DeviceTile tile{5, 4096, 904};
  EXPECT_EQ(places.of(1, tile), 5);
  EXPECT_FALSE(places.holds(tile));
  places.put(5, tile);
  EXPECT_TRUE(places.holds(tile));
  EXPECT_FALSE(places.holds({5, 8192, 904}));
  EXPECT_FALSE(places.holds({5, 4096, 900}));
}

TEST(TilePlaces, AreTheSlotsWhereMemoryIsShort) {
  const DeviceShape shape{.rows = 1, .tile_columns = 1024, .slots = 2, .columns = 5000};
  TilePlaces places(shape, 6 * 1024 * 4 - 1);
  EXPECT_EQ(places.count(), 2);
  const DeviceTile tile{5, 4096, 904};
  EXPECT_EQ(places.of(1, tile), 1);
  places.put(1, tile);
  EXPECT_FALSE(places.holds(tile));
}

/// Reads of a fit with two slots on a device that has `bytes` for tiles.
struct Reads {
  int tiles = 0;
  std::int64_t bytes = 0;
};

Reads reads_of_fit(const SnapshotSource& source,
                   std::int64_t bytes,
                   const std::filesystem::path& output) {
  auto options = testing::options_of(3);
  options.device = DeviceChoice{};
  options.threads = 2;
  testing::HostDevice::bytes_for_tiles = bytes;
  testing::HostDevice::tiles_filled = 0;
  const auto report = fit(source, options, output);
  testing::HostDevice::bytes_for_tiles = 0;
  return {testing::HostDevice::tiles_filled, report.bytes_read};
}

/// The second pass needs no tile that the device has kept; the bits are the same.
TEST(DeviceTiles, AreReadOnceWhereTheDeviceKeepsThem) {
  const TemporaryFolder folder;
  const auto source = testing::source_of(testing::random_matrix(6, 50000, 9));
  // Four tiles, and as many columns may lie in five.
  const std::int64_t bytes = 5 * 6 * 16384 * 4;
  const Reads kept = reads_of_fit(*source, bytes, folder / "kept.npy");
  EXPECT_EQ(kept.tiles, 4);
  EXPECT_EQ(kept.bytes, 6 * 50000 * 4);
  const Reads read = reads_of_fit(*source, bytes - 1, folder / "read.npy");
  EXPECT_EQ(read.tiles, 8);
  EXPECT_EQ(read.bytes, 2 * 6 * 50000 * 4);
  EXPECT_EQ(text_of_file(folder / "kept.npy"), text_of_file(folder / "read.npy"));
}

TEST(DeviceTiles, AreReadOnceWhereThereAreNoMoreThanSlots) {
  const TemporaryFolder folder;
  const auto source = testing::source_of(testing::random_matrix(6, 16384, 9));
  for (const std::int64_t bytes : {0, 1 << 30}) {
    const Reads reads = reads_of_fit(*source, bytes, folder / "p.npy");
    EXPECT_EQ(reads.tiles, 1);
    EXPECT_EQ(reads.bytes, 6 * 16384 * 4);
  }
}

}  // namespace
}  // namespace dimred::pca
