#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>

#include "checkpoints/float_formats.h"
#include "layout/shard.h"
#include "pca/basis.h"
#include "support/errors.h"
#include "tests/pca/matrices.h"
#include "tests/pca/models.h"
#include "tests/tools/thread_ranks.h"

// load_basis with P in bfloat16.
namespace dimred::pca {
namespace {

using testing::Fitted;
using testing::in_memory_order;
using testing::Matrix;
using testing::model;
using testing::whole;
using testing::write_npy;

/// The nearer of the two values of bfloat16 around it, the even one when both are as near.
std::uint16_t rounded(float value) {
  const auto below = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  const auto above = static_cast<std::uint16_t>(below + 1);
  const auto distance = [&](std::uint16_t bits) {
    return std::abs(static_cast<double>(checkpoints::from_bfloat(bits)) - value);
  };
  if (distance(below) == distance(above)) return below % 2 == 0 ? below : above;
  return distance(below) < distance(above) ? below : above;
}

/// P as it lies in memory, whatever its type.
Matrix values_of(const Basis& basis) {
  Matrix rows(basis.header.components, basis.columns);
  for (Eigen::Index i = 0; i < rows.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    rows.data()[i] = basis.dtype == BasisDtype::float32
                         ? basis.values[at]
                         : checkpoints::from_bfloat(basis.bfloats[at]);
  }
  return rows;
}

TEST(LoadBfloat16, RoundsInMemoryOrder) {
  const TemporaryFolder folder;
  const layout::Layout layout = model();
  Matrix rows = testing::random_rows(6, layout.file_size, 8);
  rows(0, 0) = 0x1.01p-7;                     // a tie, down to the even neighbour
  rows(0, layout.file_size - 1) = 0x1.03p-7;  // a tie, up
  write_npy<float>(folder / "p.npy", rows, false);
  std::vector<std::uint16_t> expected;
  for (const float value : in_memory_order(layout, rows)) expected.push_back(rounded(value));
  const Basis basis = load_basis(
      folder / "p.npy", layout, whole(layout), {.tolerance = 0.1, .dtype = BasisDtype::bfloat16});
  EXPECT_TRUE(basis.bfloats == expected);
  EXPECT_TRUE(basis.values.empty());
  // float64 sums of the same products in another order
  EXPECT_NEAR(
      basis.header.orthonormality_error, testing::orthonormality_error(values_of(basis)), 1e-13);
}

TEST(LoadBfloat16, OfShardsReassemblesTheWhole) {
  const Fitted fitted;
  const auto load = [&](const layout::Shard& shard, Communicator& ranks) {
    return load_basis(fitted.npy, fitted.layout, shard, {.dtype = BasisDtype::bfloat16}, ranks);
  };
  const Basis all = load(whole(fitted.layout), alone());
  EXPECT_NEAR(
      all.header.orthonormality_error, testing::orthonormality_error(values_of(all)), 1e-13);
  for (const auto& text : ThreadRanks(3).run([&](Communicator& ranks) {
         const layout::Shard shard = layout::shard_of(fitted.layout, ranks.rank(), 3);
         std::int64_t begin = 0;
         for (int r = 0; r < ranks.rank(); ++r)
           begin += layout::shard_of(fitted.layout, r, 3).memory_columns();
         const Basis part = load(shard, ranks);
         require(values_of(part) == values_of(all).middleCols(begin, part.columns), "[test] part");
         require(
             std::abs(part.header.orthonormality_error - all.header.orthonormality_error) < 1e-13,
             "[test] {}",
             part.header.orthonormality_error);
       })) {
    EXPECT_EQ(text, "");
  }
}

TEST(LoadBfloat16, ChecksTheRowsAsRounded) {
  const TemporaryFolder folder;
  const layout::Layout layout = model();
  // Two entries are a row, and both are rounded up: its square grows by 0.0053.
  Matrix rows = Matrix::Zero(1, layout.file_size);
  rows(0, 3) = 0x1.6902p-1;
  rows(0, 4) = std::sqrt(1 - rows(0, 3) * rows(0, 3));
  write_npy<float>(folder / "p.npy", rows, false);
  const auto load = [&](BasisDtype dtype) {
    return load_basis(folder / "p.npy", layout, whole(layout), {.dtype = dtype});
  };
  EXPECT_LT(load(BasisDtype::float32).header.orthonormality_error, 1e-6);
  const std::string text = thrown<std::invalid_argument>([&] { load(BasisDtype::bfloat16); });
  EXPECT_NE(text.find("rounded to bfloat16"), std::string::npos) << text;
}

/// Most memory that was resident since the last call with `reset`, in MB.
double peak_megabytes(bool reset) {
  if (reset) std::ofstream("/proc/self/clear_refs") << 5;
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmHWM:")) return 1024e-6 * std::stod(line.substr(6));
  }
  return -1;
}

TEST(LoadBfloat16, NeedsHalfTheMemory) {
  if (!std::ofstream("/proc/self/clear_refs")) GTEST_SKIP() << "this system counts no peaks";
  const TemporaryFolder folder;
  std::vector<layout::Parameter> parameters(1);
  parameters[0].name = "a";
  parameters[0].shape = {2'000'000};
  const layout::Layout layout = layout::make_layout(parameters);
  // Row i is the unit vector i, the rest of the file a hole.
  std::string header = checkpoints::npy_header_bytes({16, layout.file_size});
  const auto start = static_cast<std::streamoff>(header.size());
  put_file(folder / "p.npy", header);
  std::filesystem::resize_file(folder / "p.npy", header.size() + 4 * 16 * 2'000'000);
  std::fstream file(folder / "p.npy", std::ios::in | std::ios::out | std::ios::binary);
  for (std::streamoff i = 0; i < 16; ++i) {
    file.seekp(start + 4 * i * 2'000'001);
    const float one = 1;
    file.write(reinterpret_cast<const char*>(&one), sizeof(one));
  }
  file.close();
  const auto rise = [&](BasisDtype dtype) {
    const double before = peak_megabytes(true);
    const Basis basis = load_basis(folder / "p.npy", layout, whole(layout), {.dtype = dtype});
    EXPECT_EQ(basis.header.orthonormality_error, 0);
    return peak_megabytes(false) - before;
  };
  // 128 and 64 MB, and of each of 2 threads a digest block of 1 MB with its panel.
  EXPECT_NEAR(rise(BasisDtype::float32), 128, 12);
  EXPECT_NEAR(rise(BasisDtype::bfloat16), 64, 12);
}

}  // namespace
}  // namespace dimred::pca
