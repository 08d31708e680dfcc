#include <gtest/gtest.h>

#include <limits>

#include "pca/basis.h"
#include "support/atomic_file.h"
#include "tests/pca/shared_problem.h"

namespace dimred::pca {
namespace {

using testing::common_error;
using testing::components;
using testing::Matrix;
using testing::one_vector;
using testing::options_of;
using testing::random_matrix;
using testing::snapshots;
using testing::source_of;
using testing::test_columns;
using testing::test_rows;
using testing::WatchedSource;

/// The errors of three ranks where rank r fits source(r), and that nothing stays behind but p.npy.
template <class SourceOf>
std::string ranks_refusal(const TemporaryFolder& folder, SourceOf source) {
  const auto before = testing::names_in(folder);
  std::string error = common_error(ThreadRanks(3).run([&](Communicator& ranks) {
    fit(*source(ranks.rank()), options_of(components), folder / "p.npy", ranks);
  }));
  EXPECT_EQ(testing::names_in(folder), before);
  return error;
}

TEST(RanksRefuse, AValueThatIsNotFinite) {
  const TemporaryFolder folder;
  Matrix matrix = random_matrix(7, test_columns, 4);
  matrix(5, 80000) = std::numeric_limits<double>::quiet_NaN();  // rank 1 of 3 has 49152 to 81920
  const auto source = source_of(matrix);
  EXPECT_EQ(ranks_refusal(folder, [&](int) { return source.get(); }),
            "caller: [pca] needs finite snapshots, received nan in row 5 (memory[5]), column "
            "80000");
  EXPECT_EQ(folder.count(), 0U);
}

TEST(RanksRefuse, AReadErrorAndKeepTheOldMatrix) {
  const TemporaryFolder folder;
  fit(snapshots(), options_of(2), folder / "p.npy");
  const std::string matrix = text_of_file(folder / "p.npy");
  const std::string sidecar = text_of_file(folder / "p.json");
  for (int rank = 0; rank < 3; ++rank) {
    // Own columns of rank 0, 1 and 2: that many times test_rows values are the first pass.
    const std::int64_t own[] = {3 * 16384, 2 * 16384, test_columns - 5 * 16384};
    for (const std::int64_t allowed : {std::int64_t{0}, test_rows * own[rank]}) {
      WatchedSource good, failing;
      failing.at_read = [&](std::int64_t, std::int64_t, std::int64_t) {
        if (failing.values > allowed) throw std::runtime_error("disk on fire");
      };
      EXPECT_EQ(ranks_refusal(folder, [&](int i) { return i == rank ? &failing : &good; }),
                "environment: disk on fire");
    }
  }
  EXPECT_EQ(text_of_file(folder / "p.npy"), matrix);
  EXPECT_EQ(text_of_file(folder / "p.json"), sidecar);
}

TEST(RanksRefuse, AnOutputThatRankZeroCannotWrite) {
  const auto error = [&](const std::filesystem::path& output) {
    return common_error(ThreadRanks(3).run(
        [&](Communicator& ranks) { fit(snapshots(), options_of(components), output, ranks); }));
  };
  const TemporaryFolder folder;
  EXPECT_EQ(error(folder / "none/p.npy"),
            "caller: [pca] needs an existing folder for the output, received '" +
                (folder / "none/p.npy").string() + "'");
  {
    const AtomicFile other(folder / "p.npy");
    EXPECT_EQ(error(folder / "p.npy"),
              "environment: [file] '" + (folder / "p.npy.tmp").string() +
                  "' is being written by another program or thread");
  }
  {
    const AtomicFile other(folder / "p.json");  // met at the commit only
    EXPECT_NE(
        error(folder / "p.npy").find("p.json.tmp' is being written by another program or thread"),
        std::string::npos);
  }
  EXPECT_EQ(folder.count(), 0U);
}

TEST(RanksRefuse, AFolderThatOneOfThemDoesNotShare) {
  const TemporaryFolder shared, other;
  const auto error = [&] {
    return common_error(ThreadRanks(3).run([&](Communicator& ranks) {
      const auto& folder = ranks.rank() == 2 ? other : shared;
      fit(snapshots(), options_of(components), folder / "p.npy", ranks);
    }));
  };
  const auto refusal = [&](const std::string& found) {
    return "caller: [pca] needs a folder that all ranks share, but rank 2 finds " + found + " '" +
           (other / "p.npy.tmp").string() + "' of rank 0";
  };
  EXPECT_EQ(error(), refusal("no"));
  for (const auto& text : {std::string(), std::string(3000000, ' ')}) {
    put_file(other / "p.npy.tmp", text);  // of an earlier start
    EXPECT_EQ(error(), refusal("another file instead of"));
    EXPECT_EQ(text_of_file(other / "p.npy.tmp"), text);
  }
  EXPECT_EQ(shared.count(), 0U);
}

TEST(RanksRefuse, DifferentProblems) {
  const TemporaryFolder folder;
  const auto other = source_of(random_matrix(test_rows, 20000, 5));
  const std::string rest =
      " snapshots, k = 5, variance 0, kind pca, blocks 1, seed 0, from 0 to 0 skip 0";
  EXPECT_EQ(ranks_refusal(folder, [&](int rank) { return rank == 2 ? other.get() : &snapshots(); }),
            "caller: [distributed] ranks disagree in the fit: rank 0 has 13 x 103305" + rest +
                ", rank 2 has 13 x 20000" + rest);
}

TEST(RanksRefuse, TooFewDirections) {
  const TemporaryFolder folder;
  Matrix matrix = random_matrix(test_rows, 40000, 6);
  matrix.rowwise() = matrix.row(0).eval();
  const auto source = source_of(matrix);
  EXPECT_NE(ranks_refusal(folder, [&](int) { return source.get(); })
                .find("13 snapshots that span only 0"),
            std::string::npos);
}

TEST(RanksRefuse, DamageOfABasisInOneShard) {
  const TemporaryFolder folder;
  fit(snapshots(), options_of(components), folder / "p.npy");
  std::string bytes = text_of_file(folder / "p.npy");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  put_file(folder / "p.npy", bytes);
  const layout::Layout layout = one_vector(test_columns);
  const std::string error = common_error(ThreadRanks(3).run([&](Communicator& ranks) {
    load_basis(folder / "p.npy", layout, layout::shard_of(layout, ranks.rank(), 3), {}, ranks);
  }));
  EXPECT_NE(error.find("environment: [pca_mat]"), std::string::npos) << error;
  EXPECT_NE(error.find("columns 98304 to 103305 do not match the digest"), std::string::npos)
      << error;
}

}  // namespace
}  // namespace dimred::pca
