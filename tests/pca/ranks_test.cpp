#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <new>
#include <stdexcept>

#include "layout/shard.h"
#include "pca/basis.h"
#include "support/agreement.h"
#include "tests/pca/shared_problem.h"

namespace dimred::pca {
namespace {

using testing::common_error;
using testing::components;
using testing::Matrix;
using testing::one_vector;
using testing::options_of;
using testing::read_matrix;
using testing::snapshots;
using testing::source_of;
using testing::test_columns;
using testing::test_rows;
using testing::WatchedSource;

/// Every rank's report of a fit by `size` ranks.
std::vector<Basis> fit_ranks(int size,
                             const SnapshotSource& source,
                             const FitOptions& options,
                             const std::filesystem::path& output) {
  std::vector<Basis> reports(static_cast<std::size_t>(size));
  const auto outcomes = ThreadRanks(size).run([&](Communicator& ranks) {
    reports[static_cast<std::size_t>(ranks.rank())] = fit(source, options, output, ranks);
  });
  const std::string error = common_error(outcomes);
  if (error != "no error") throw std::runtime_error(error);
  return reports;
}

TEST(Agree, GivesEveryRankTheFirstErrorAndItsKind) {
  const auto outcome = [](const std::function<void(int)>& work) {
    return common_error(ThreadRanks(4).run(
        [&](Communicator& ranks) { agree(ranks, [&] { work(ranks.rank()); }); }));
  };
  EXPECT_EQ(outcome([](int) {}), "no error");
  EXPECT_EQ(outcome([](int rank) {
              if (rank == 3) throw std::runtime_error("three");
              if (rank == 2) throw std::invalid_argument("two");
            }),
            "caller: two");
  EXPECT_EQ(outcome([](int rank) {
              if (rank == 1) throw std::runtime_error("one");
            }),
            "environment: one");
  EXPECT_EQ(outcome([](int rank) {
              if (rank == 0) throw std::logic_error("zero");
            }),
            "bug: zero");
  EXPECT_THROW(agree(alone(), [] { throw std::bad_alloc(); }), std::bad_alloc);  // alone: as it is
}

/// How far fits by R ranks and by one may be apart (see pca/fit.h), by Eigen's float64 spectrum.
struct Bound {
  double spectrum = 0;       // d
  std::vector<double> rows;  // [k] in norm
  explicit Bound(const SnapshotSource& source) {
    std::vector<float> values(static_cast<std::size_t>(source.rows() * source.columns()));
    source.read_tile(0, source.columns(), values.data(), source.columns());
    Matrix w = Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
                   values.data(), source.rows(), source.columns())
                   .cast<double>();
    w.rowwise() -= w.colwise().mean().eval();
    const Eigen::VectorXd values2 = testing::eigenvalues_of(w * w.transpose()).reverse();
    const double blocks = std::ceil(static_cast<double>(source.columns()) / 4096);
    spectrum = 2 * (blocks + static_cast<double>(source.rows())) * 0x1p-53 * values2.sum();
    for (Eigen::Index j = 0; j < components; ++j) {
      double gap = values2(j) - values2(j + 1);
      if (j > 0) gap = std::min(gap, values2(j - 1) - values2(j));
      rows.push_back(2 * spectrum * std::sqrt(values2(0) / values2(j)) / gap);
    }
  }
};

/// `ranks`, whose rank 0 counts the numbers that it sums.
class CountingSums final : public Communicator {
 public:
  CountingSums(Communicator& ranks, std::atomic<std::int64_t>& numbers)
      : ranks_(ranks), numbers_(numbers) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  void sum(std::span<double> values) override {
    if (rank() == 0) numbers_ += std::ssize(values);
    ranks_.sum(values);
  }
  std::vector<std::string> gather(const std::string& text) override { return ranks_.gather(text); }

 private:
  Communicator& ranks_;
  std::atomic<std::int64_t>& numbers_;
};

/// Gram matrix, eigenvalues, eigenvectors, P P', the rows' extremes,
/// and five numbers of the report.
TEST(FitByRanks, SumsAsManyNumbersAsItsMatricesHave) {
  constexpr auto n = test_rows, k = components;
  const TemporaryFolder folder;
  for (const int size : {2, 3, 7}) {
    std::atomic<std::int64_t> numbers = 0;
    const auto outcomes = ThreadRanks(size).run([&](Communicator& ranks) {
      CountingSums counted(ranks, numbers);
      fit(snapshots(), options_of(k), folder / "p.npy", counted);
    });
    EXPECT_EQ(common_error(outcomes), "no error");
    EXPECT_EQ(numbers, n * (n + 1) / 2 + n + n * n + k * (k + 1) / 2 + k * size + 5) << size;
  }
}

TEST(FitByRanks, GivesTheBasisOfOneRankForAnyNumber) {
  const TemporaryFolder folder;
  const Sidecar alone = fit(snapshots(), options_of(components), folder / "one.npy").header;
  const Matrix expected = read_matrix(folder / "one.npy");
  const Bound bound(snapshots());
  for (const int size : {1, 2, 3, 4, 7, 12}) {
    SCOPED_TRACE(size);
    const Sidecar report =
        fit_ranks(size, snapshots(), options_of(components), folder / "p.npy").front().header;
    for (std::size_t j = 0; j < components; ++j) {
      const double one = alone.singular_values[j];
      EXPECT_LE(std::abs(std::pow(report.singular_values[j], 2) - one * one), bound.spectrum);
    }
    const Matrix basis = read_matrix(folder / "p.npy");
    ASSERT_EQ(basis.cols(), test_columns);
    for (Eigen::Index j = 0; j < components; ++j) {
      const auto moved = (basis.row(j) - expected.row(j)).cwiseAbs().array();
      const auto rounding = 0x1p-23 * expected.row(j).cwiseAbs().array();
      EXPECT_LE((moved - rounding).maxCoeff(), bound.rows[static_cast<std::size_t>(j)]) << j;
      EXPECT_EQ(basis.row(j).maxCoeff(), basis.row(j).cwiseAbs().maxCoeff()) << j;
    }
    EXPECT_LT(testing::orthonormality_error(basis), 2.5e-7);
    // float64 sums of 103,305 products of rows of norm 1.
    EXPECT_NEAR(report.orthonormality_error, testing::orthonormality_error(basis), 1e-12);
    if (size > 1) continue;
    EXPECT_TRUE(text_of_file(folder / "p.npy") == text_of_file(folder / "one.npy"));
  }
}

TEST(FitByRanks, LeavesOneFileWhoseDigestsHoldForEveryShard) {
  const layout::Layout layout = one_vector(test_columns);
  for (const int size : {2, 7, 12}) {
    const TemporaryFolder folder;
    fit_ranks(size, snapshots(), options_of(components), folder / "p.npy");
    EXPECT_EQ(testing::names_in(folder), (std::vector<std::string>{"p.json", "p.npy"}));
    std::vector<Basis> parts(static_cast<std::size_t>(size));
    const auto outcomes = ThreadRanks(size).run([&](Communicator& ranks) {
      parts[static_cast<std::size_t>(ranks.rank())] = load_basis(
          folder / "p.npy", layout, layout::shard_of(layout, ranks.rank(), size), {}, ranks);
    });
    EXPECT_EQ(common_error(outcomes), "no error");
    std::int64_t columns = 0;
    for (const Basis& part : parts) {
      columns += part.columns;
      EXPECT_LT(part.header.orthonormality_error, 2.5e-7);
      EXPECT_EQ(part.header.orthonormality_error, parts.front().header.orthonormality_error);
    }
    EXPECT_EQ(columns, layout.memory_size);
  }
}

TEST(FitByRanks, GivesTheSameBitsAtTheSameNumber) {
  const TemporaryFolder folder;
  for (const int size : {2, 3, 4}) {
    std::string first;
    std::vector<double> values;
    for (const std::int64_t tile_bytes : {1 << 20, 64 << 20}) {
      for (const std::int64_t threads : {1, 8, 8}) {  // 8 have tiles of 512 columns in 1 MiB
        FitOptions options = options_of(components);
        options.tile_bytes = tile_bytes;
        options.threads = threads;
        const auto reports = fit_ranks(size, snapshots(), options, folder / "p.npy");
        const std::string bytes = text_of_file(folder / "p.npy");
        if (first.empty()) first = bytes;
        if (values.empty()) values = reports[0].header.singular_values;
        EXPECT_EQ(reports[0].header.singular_values, values)
            << size << ' ' << tile_bytes << ' ' << threads;
        ASSERT_EQ(first.size(), 128 + 4U * components * test_columns);
        EXPECT_TRUE(bytes == first) << size << ' ' << tile_bytes << ' ' << threads;
      }
    }
  }
}

TEST(FitByRanks, OrthonormalisesASteepSpectrum) {
  const TemporaryFolder folder;
  const Matrix rows = testing::random_rows(10, 50000, 2);
  const Eigen::VectorXd values = Eigen::VectorXd::NullaryExpr(
      10, [](Eigen::Index j) { return std::pow(1e-6, static_cast<double>(j) / 9); });
  const auto source = source_of(testing::centred_columns(16, 10, 3) * values.asDiagonal() * rows);
  for (const Basis& basis : fit_ranks(3, *source, options_of(10), folder / "p.npy")) {
    const Sidecar& report = basis.header;
    EXPECT_TRUE(report.reorthonormalized);
    EXPECT_LT(report.orthonormality_error, 2e-7);
    EXPECT_EQ(basis.report.bytes_read, 3 * 16 * 50000 * 4);
  }
  EXPECT_LT(testing::orthonormality_error(read_matrix(folder / "p.npy")), 2e-7);
}

TEST(FitByRanks, ReportsTheSameOnEveryRank) {
  const TemporaryFolder folder;
  const auto reports = fit_ranks(4, snapshots(), options_of(components), folder / "p.npy");
  EXPECT_EQ(reports[0].report.bytes_read, 2 * test_rows * test_columns * 4);
  for (const Basis& basis : reports) {
    const Sidecar& report = basis.header;
    EXPECT_EQ(report.singular_values, reports[0].header.singular_values);
    EXPECT_EQ(report.explained_variance_ratio, reports[0].header.explained_variance_ratio);
    EXPECT_EQ(report.orthonormality_error, reports[0].header.orthonormality_error);
    EXPECT_EQ(describe(basis), describe(reports[0]));
  }
}

TEST(FitByRanks, ReadsOnlyTheRanksOwnColumns) {
  for (const int size : {2, 3, 7, 12}) {
    const TemporaryFolder folder;
    std::vector<std::atomic<int>> times(7);  // that a digest block's columns were read, summed
    const auto outcomes = ThreadRanks(size).run([&](Communicator& ranks) {
      std::vector<std::atomic<int>> own(7);
      WatchedSource source;
      source.at_read = [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        EXPECT_EQ(begin / 16384, (end - 1) / 16384);
        own[static_cast<std::size_t>(begin / 16384)] = 1;
      };
      fit(source, options_of(components), folder / "p.npy", ranks);
      std::int64_t blocks = 0, columns = 0;
      for (std::size_t i = 0; i < own.size(); ++i) {
        times[i] += own[i];
        blocks += own[i];
        if (own[i] == 1) columns += i == 6 ? test_columns - 6 * 16384 : 16384;
      }
      EXPECT_GE(blocks, 7 / size) << ranks.rank();
      EXPECT_LE(blocks, (7 + size - 1) / size) << ranks.rank();
      EXPECT_EQ(source.values, 2 * test_rows * columns)
          << ranks.rank();  // two passes, nothing else
    });
    EXPECT_EQ(common_error(outcomes), "no error");
    for (const auto& count : times) EXPECT_EQ(count, 1) << size;  // each block by one rank
  }
}

}  // namespace
}  // namespace dimred::pca
