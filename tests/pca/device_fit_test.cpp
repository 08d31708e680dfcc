// A fit on a device against the same on the processor. Compiled twice: into pca_test, where the
// device is a real one, or the test is skipped; and into pca_device_test, where a processor runs
// the device's kernels.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/pca/matrices.h"
#include "tests/pca/sources.h"

namespace dimred::pca {
namespace {

using testing::Matrix;
using testing::options_of;
using testing::random_matrix;
using testing::read_matrix;
using testing::source_of;

/// A walk, so that the spectrum falls and the components are distinct.
Matrix walk(std::int64_t rows, std::int64_t columns) {
  Matrix w = random_matrix(rows, columns, 11);
  for (std::int64_t i = 1; i < rows; ++i) w.row(i) += w.row(i - 1);
  return w;
}

class DeviceFit : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      fit(*source_of(random_matrix(3, 10, 1)), on_device(1), folder / "p.npy");
    } catch (const std::runtime_error& error) {
      const std::string text = error.what();
      for (const auto* missing :
           {"no CUDA device was found", "no NVIDIA driver", "no CUDA kernels"})
        if (text.find(missing) != std::string::npos) GTEST_SKIP() << text;
      throw;
    }
  }

  static FitOptions on_device(std::int64_t components) {
    FitOptions options = options_of(components);
    options.device = DeviceChoice{};
    return options;
  }

  TemporaryFolder folder;
};

/// Both sums are off by far less than 1e-10 of the largest eigenvalue, and the gaps are wide.
void expect_same(const Matrix& one, const Matrix& other) {
  ASSERT_EQ(one.rows(), other.rows());
  ASSERT_EQ(one.cols(), other.cols());
  for (std::int64_t i = 0; i < one.rows(); ++i)
    EXPECT_LE((one.row(i) - other.row(i)).norm(), 2e-7 * one.row(i).norm()) << i;
}

TEST_F(DeviceFit, IsThatOfTheProcessor) {
  // Three tiles, of which the last is short: 2 x 16384 + 4321.
  const auto source = source_of(walk(12, 37089));
  const auto host = fit(*source, options_of(5), folder / "host.npy");
  auto options = on_device(5);
  options.gram = folder / "gram.npy";
  const auto device = fit(*source, options, folder / "device.npy");
  EXPECT_EQ(device.kernels, "cuda");
  for (std::size_t j = 0; j < 5; ++j)
    EXPECT_NEAR(
        device.singular_values[j], host.singular_values[j], 1e-11 * host.singular_values[0]);
  EXPECT_LE(device.orthonormality_error, 2.5e-7);
  expect_same(read_matrix(folder / "device.npy"), read_matrix(folder / "host.npy"));
}

TEST_F(DeviceFit, HasTheSameBitsForAnyThreads) {
  const auto source = source_of(walk(7, 50000));
  auto options = on_device(3);
  options.threads = 1;
  fit(*source, options, folder / "one.npy");
  options.threads = 5;
  fit(*source, options, folder / "many.npy");
  EXPECT_EQ(text_of_file(folder / "one.npy"), text_of_file(folder / "many.npy"));
}

TEST_F(DeviceFit, MakesTheOtherKindsToo) {
  const auto source = source_of(walk(6, 20000));
  for (const Kind kind : {Kind::span, Kind::random}) {
    auto options = options_of(4);
    options.kind = kind;
    fit(*source, options, folder / "host.npy");
    options.device = DeviceChoice{};
    options.gram = folder / "gram.npy";
    fit(*source, options, folder / "device.npy");
    expect_same(read_matrix(folder / "device.npy"), read_matrix(folder / "host.npy"));
  }
}

TEST_F(DeviceFit, NamesWhatIsNotFinite) {
  Matrix w = walk(4, 40000);
  w(2, 33333) = std::numeric_limits<double>::infinity();
  try {
    fit(*source_of(w), on_device(2), folder / "p.npy");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(
        error.what(),
        "[pca::fit] needs finite snapshots, received inf in row 2 (memory[2]), column 33333");
  }
}

TEST_F(DeviceFit, RefusesADeviceThatIsNotThere) {
  auto options = on_device(2);
  options.device = DeviceChoice{.number = 4096};
  EXPECT_THROW(fit(*source_of(walk(4, 100)), options, folder / "q.npy"), std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(folder / "q.npy"));
}

TEST_F(DeviceFit, SharesDevicesAmongMoreRanks) {
  auto options = on_device(2);
  options.device = DeviceChoice{.number = 4095, .ranks = 4096};
  EXPECT_EQ(fit(*source_of(walk(4, 100)), options, folder / "q.npy").kernels, "cuda");
}

TEST(ChosenDevice, IsTakenInTurnByRanks) {
  const std::array<int, 5> expected{0, 1, 0, 1, 0};
  for (int rank = 0; rank < 5; ++rank) {
    const ChosenDevice chosen = chosen_among(2, {.number = rank, .ranks = 5});
    EXPECT_EQ(chosen.number, expected[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(chosen.ranks, 3);  // share the first, and are one more than share the second
  }
  EXPECT_EQ(chosen_among(2, {.number = 0, .ranks = 1}).ranks, 1);
}

TEST(ChosenDevice, OfANumberIsThatDevice) {
  EXPECT_EQ(chosen_among(2, {.number = 3}).number, 3);
  EXPECT_EQ(chosen_among(2, {.number = 1}).ranks, 1);
}

}  // namespace
}  // namespace dimred::pca
