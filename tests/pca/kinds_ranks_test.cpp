#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <tuple>

#include "layout/shard.h"
#include "pca/basis.h"
#include "tests/pca/laid_out.h"
#include "tests/pca/shared_problem.h"

namespace dimred::pca {
namespace {

using testing::columns_of;
using testing::common_error;
using testing::kind_options;
using testing::LaidOutSource;
using testing::Matrix;
using testing::ranges_of;
using testing::read_matrix;

// 45,010 columns are 3 digest blocks: 5 ranks leave 2 without any.
const LaidOutSource& source() {
  static const LaidOutSource source(testing::layered_snapshots(8, 1), testing::six_layers());
  return source;
}

Basis fit_kind_on_ranks(int size, const FitOptions& options, const std::filesystem::path& output) {
  std::vector<Basis> reports(static_cast<std::size_t>(size));
  const auto outcomes = ThreadRanks(size).run([&](Communicator& ranks) {
    reports[static_cast<std::size_t>(ranks.rank())] = fit(source(), options, output, ranks);
  });
  EXPECT_EQ(common_error(outcomes), "no error");
  for (const Basis& basis : reports) {
    const Sidecar& report = basis.header;
    EXPECT_EQ(report.singular_values, reports[0].header.singular_values);
    EXPECT_EQ(report.block_components, reports[0].header.block_components);
    EXPECT_EQ(describe(basis), describe(reports[0]));
  }
  return reports[0];
}

/// The digests in the sidecar hold, and P P' is I, for the shards of `size` ranks.
void expect_loads(int size, const std::filesystem::path& npy) {
  const layout::Layout layout = testing::six_layers();
  const auto outcomes = ThreadRanks(size).run([&](Communicator& ranks) {
    const auto shard = layout::shard_of(layout, ranks.rank(), size);
    const Basis basis = load_basis(npy, layout, shard, {}, ranks);
    EXPECT_LT(basis.header.orthonormality_error, 5e-7);
  });
  EXPECT_EQ(common_error(outcomes), "no error");
}

class KindsByRanks : public ::testing::TestWithParam<std::tuple<Kind, Blocks>> {};

TEST_P(KindsByRanks, GiveTheMatrixOfOneRank) {
  const auto [kind, blocks] = GetParam();
  const TemporaryFolder folder;
  FitOptions options = kind_options(kind, 5, blocks);
  options.gram = folder / "gram.npy";
  const Sidecar alone = fit(source(), options, folder / "one.npy").header;
  const Matrix expected = read_matrix(folder / "one.npy");
  const std::string gram = text_of_file(options.gram);
  for (const int size : {2, 3, 5}) {
    SCOPED_TRACE(size);
    const Sidecar report = fit_kind_on_ranks(size, options, folder / "p.npy").header;
    EXPECT_EQ(report.block_components, alone.block_components);
    const Matrix basis = read_matrix(folder / "p.npy");
    if (kind == Kind::random) {
      EXPECT_TRUE(basis == expected);
    }
    // Rows of a block are known to some 1e-14 (d of pca/fit.h with 12 partial Grams, gaps of 0.5):
    // what differs is a rounding to float32, of 1 at most where a block has a few columns.
    EXPECT_LT((basis - expected).cwiseAbs().maxCoeff(), 1.2e-7);
    const auto moved = (basis - expected).cwiseAbs().array();
    EXPECT_LE((moved - 0x1p-23 * expected.cwiseAbs().array()).maxCoeff(), 1e-11);
    expect_loads(size, folder / "p.npy");
    EXPECT_EQ(text_of_file(options.gram).size(), gram.size());
    EXPECT_EQ(testing::names_in(folder),
              (std::vector<std::string>{"gram.npy", "one.json", "one.npy", "p.json", "p.npy"}));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    KindsByRanks,
    ::testing::Combine(::testing::Values(Kind::pca, Kind::span, Kind::random, Kind::shuffled),
                       ::testing::Values(Blocks::whole, Blocks::layers)),
    [](const auto& info) {
      return name_of(std::get<0>(info.param)) +
             (std::get<1>(info.param) == Blocks::whole ? "Whole" : "Layers");
    });

TEST(ShuffledByRanks, MovesTheBitsOfItsOwnPca) {
  const TemporaryFolder folder;
  fit_kind_on_ranks(3, kind_options(Kind::pca, 5), folder / "pca.npy");
  fit_kind_on_ranks(3, kind_options(Kind::shuffled, 5), folder / "p.npy");
  Matrix rows = read_matrix(folder / "pca.npy");
  Matrix moved = read_matrix(folder / "p.npy");
  EXPECT_FALSE(rows == moved);
  for (const layout::ColumnRange& range : ranges_of(testing::six_layers())) {
    for (Eigen::Index j = 0; j < rows.rows(); ++j) {
      for (Matrix* matrix : {&rows, &moved}) {
        double* first = &(*matrix)(j, range.begin);
        std::sort(first, first + range.size());
      }
    }
  }
  EXPECT_TRUE(rows == moved);
}

/// Counts the values read of each rank.
class CountedSource final : public SnapshotSource {
 public:
  CountedSource() : SnapshotSource(source().info()) {}
  mutable std::atomic<std::int64_t> values = 0;
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    values += std::ssize(out);
    source().read(row, begin, out);
  }
};

TEST(LayersByRanks, ReadOnlyTheRanksOwnColumns) {
  const TemporaryFolder folder;
  const std::int64_t own[] = {16384, 16384, 45010 - 2 * 16384, 0};
  const auto outcomes = ThreadRanks(4).run([&](Communicator& ranks) {
    CountedSource counted;
    fit(counted, kind_options(Kind::pca, 5, Blocks::layers), folder / "p.npy", ranks);
    EXPECT_EQ(counted.values, 2 * 8 * own[ranks.rank()]) << ranks.rank();
  });
  EXPECT_EQ(common_error(outcomes), "no error");
}

TEST(RandomByRanks, ReadsNoSnapshot) {
  const TemporaryFolder folder;
  const auto outcomes = ThreadRanks(2).run([&](Communicator& ranks) {
    CountedSource counted;
    fit(counted, kind_options(Kind::random, 5), folder / "p.npy", ranks);
    EXPECT_EQ(counted.values, 0);
  });
  EXPECT_EQ(common_error(outcomes), "no error");
}

TEST(KindsByRanksRefuse, OptionsThatDiffer) {
  const TemporaryFolder folder;
  const std::string error = common_error(ThreadRanks(2).run([&](Communicator& ranks) {
    FitOptions options = kind_options(Kind::random, 5);
    options.seed = static_cast<std::uint64_t>(ranks.rank());
    fit(source(), options, folder / "p.npy", ranks);
  }));
  for (const char* part :
       {"disagree in the fit: rank 0 has ", "seed 0, from", "rank 1 has ", "seed 1, from"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_EQ(folder.count(), 0U);
}

}  // namespace
}  // namespace dimred::pca
