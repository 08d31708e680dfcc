#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "checkpoints/npy.h"
#include "support/errors.h"
#include "tests/pca/laid_out.h"

namespace {
std::string_view stays;  // a name whose file no rename makes; empty: all are made
}

// In front of libc's, for one test.
extern "C" int rename(const char* from, const char* to) noexcept {
  static const auto real =
      reinterpret_cast<int (*)(const char*, const char*)>(dlsym(RTLD_NEXT, "rename"));
  if (stays.empty() || !std::string_view(to).ends_with(stays) ||
      std::string_view(from).find("_old") != std::string_view::npos)
    return real(from, to);
  errno = EIO;
  return -1;
}

namespace dimred::pca {
namespace {

using testing::kind_options;
using testing::LaidOutSource;
using testing::Matrix;

/// An [n, n] float64 .npy.
Matrix read_square(const std::filesystem::path& path) {
  const checkpoints::NpyHeader header = checkpoints::read_npy_header(path);
  EXPECT_EQ(header.item_bytes, 8);
  EXPECT_EQ(header.shape.at(0), header.shape.at(1));
  Matrix matrix(header.shape.at(0), header.shape.at(1));
  const std::string bytes = text_of_file(path);
  std::memcpy(matrix.data(),
              bytes.data() + header.data_offset,
              static_cast<std::size_t>(matrix.size()) * sizeof(double));
  return matrix;
}

Matrix centred_gram(const Matrix& matrix) {
  Matrix centred = matrix.cast<float>().cast<double>();
  centred.rowwise() -= centred.colwise().mean().eval();
  return centred * centred.transpose();
}

TEST(GramFile, IsThatOfTheCentredSnapshotsWhateverTheKind) {
  const Matrix rows = testing::layered_snapshots(9, 1);
  const LaidOutSource source(rows, testing::six_layers());
  const Matrix expected = centred_gram(rows);
  for (const auto& [name, kind] : kind_names()) {
    for (const Blocks blocks : {Blocks::whole, Blocks::layers}) {
      const TemporaryFolder folder;
      FitOptions options = kind_options(kind, 4, blocks);
      options.gram = folder / "gram.npy";
      fit(source, options, folder / "p.npy");
      const Matrix gram = read_square(options.gram);
      // float64 sums of 45,010 products in two orders.
      EXPECT_LT((gram - expected).cwiseAbs().maxCoeff(), 1e-12 * expected.trace()) << name;
      EXPECT_TRUE(gram == gram.transpose().eval()) << name;
      EXPECT_LT(gram.rowwise().sum().cwiseAbs().maxCoeff(), 1e-12 * expected.trace()) << name;
      EXPECT_EQ(testing::names_in(folder),
                (std::vector<std::string>{"gram.npy", "p.json", "p.npy"}));
    }
  }
}

TEST(GramFile, HoldsTheSpectrum) {
  const TemporaryFolder folder;
  const LaidOutSource source(testing::layered_snapshots(9, 2), testing::six_layers());
  FitOptions options = kind_options(Kind::pca, 8);
  options.gram = folder / "gram.npy";
  const Sidecar report = fit(source, options, folder / "p.npy").header;
  const Eigen::VectorXd values = testing::eigenvalues_of(read_square(options.gram));
  for (int j = 0; j < 8; ++j) {
    const double value = std::sqrt(values(8 - j));
    EXPECT_NEAR(report.singular_values[static_cast<std::size_t>(j)] / value, 1, 1e-11) << j;
  }
}

TEST(GramFile, IsOfTheSnapshotsInRange) {
  const TemporaryFolder folder;
  const Matrix rows = testing::layered_snapshots(9, 3);
  const LaidOutSource source(rows, testing::six_layers(), {1, 1, 2, 2, 3, 3, 4, 4, 5});
  FitOptions options = kind_options(Kind::pca, 2);
  options.gram = folder / "gram.npy";
  options.snapshots = {.from = 2, .to = 4, .skip = 1};  // rows 2, 4, 6
  fit(source, options, folder / "p.npy");
  Matrix used(3, rows.cols());
  for (int i = 0; i < 3; ++i) used.row(i) = rows.row(2 + 2 * i);
  const Matrix expected = centred_gram(used);
  EXPECT_LT((read_square(options.gram) - expected).cwiseAbs().maxCoeff(), 1e-12 * expected.trace());
}

/// Snapshots, one of them written while they are read.
class ChangingSource final : public SnapshotSource {
 public:
  explicit ChangingSource(const SnapshotSource& source)
      : SnapshotSource(source.info()), source_(&source) {}
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    source_->read(row, begin, out);
  }
  void require_unchanged(std::int64_t row) const override {
    require_environment(row < 3, "row {} has changed while it was read", row);
  }

 private:
  const SnapshotSource* source_;
};

/// Under which the earlier pair is kept meanwhile.
const std::vector<std::string> kept_names{"p.json.dimred_old.tmp", "p.npy.dimred_old.tmp"};

/// A second run of the command would be refused by "exists already".
TEST(GramFile, StandsOnlyBesideItsMatrix) {
  const TemporaryFolder folder;
  const LaidOutSource source(testing::layered_snapshots(9, 5), testing::six_layers());
  FitOptions options = kind_options(Kind::pca, 2);
  options.gram = folder / "gram.npy";
  EXPECT_NE(thrown<std::runtime_error>([&] {
              fit(ChangingSource(source), options, folder / "p.npy");
            }).find("row 3 has changed"),
            std::string::npos);
  EXPECT_EQ(testing::names_in(folder), std::vector<std::string>{});
  stays = "p.json";
  EXPECT_THROW(fit(source, options, folder / "p.npy"), std::runtime_error);
  stays = {};
  EXPECT_EQ(testing::names_in(folder), std::vector<std::string>{});
}

/// A matrix with its sidecar, as an earlier fit has left them.
struct EarlierPair {
  TemporaryFolder folder;
  LaidOutSource source{testing::layered_snapshots(9, 6), testing::six_layers()};
  std::string matrix, sidecar;

  EarlierPair() {
    fit(source, kind_options(Kind::pca, 3), folder / "p.npy");
    matrix = text_of_file(folder / "p.npy");
    sidecar = text_of_file(folder / "p.json");
  }
  void expect_back(const std::string& place) const {
    EXPECT_EQ(text_of_file(folder / "p.npy"), matrix) << place;
    EXPECT_EQ(text_of_file(folder / "p.json"), sidecar) << place;
    EXPECT_EQ(testing::names_in(folder), (std::vector<std::string>{"p.json", "p.npy"}));
  }
};

/// Whichever of the two cannot be renamed, and although a killed fit has kept files.
TEST(FitOutput, KeepsTheEarlierPairWhereTheNewOneCannotBeMade) {
  const EarlierPair earlier;
  const auto& folder = earlier.folder;
  const auto& source = earlier.source;
  for (const auto* name : {"p.json", "p.npy"}) {
    for (const auto& kept : kept_names) put_file(folder / kept, "earlier");
    stays = name;
    EXPECT_THROW(fit(source, kind_options(Kind::pca, 2), folder / "p.npy"), std::runtime_error);
    stays = {};
    earlier.expect_back(name);
  }
  fit(source, kind_options(Kind::pca, 2), folder / "p.npy");
  EXPECT_NE(text_of_file(folder / "p.npy"), earlier.matrix);
  EXPECT_EQ(testing::names_in(folder), (std::vector<std::string>{"p.json", "p.npy"}));
}

/// A fit that fails after a kill puts back what the killed one has moved away.
TEST(FitOutput, KeepsWhatAKilledFitHasKeptUntilItEnds) {
  const EarlierPair earlier;
  const auto& folder = earlier.folder;
  const auto& source = earlier.source;
  for (const bool renamed : {false, true}) {  // the new matrix, before the kill
    std::filesystem::copy_file(folder / "p.npy", folder / kept_names[1]);
    std::filesystem::rename(folder / "p.json", folder / kept_names[0]);
    if (renamed) put_file(folder / "p.npy", "new");
    for (const auto* name : {"p.json", "p.npy"}) {
      stays = name;
      EXPECT_THROW(fit(source, kind_options(Kind::pca, 2), folder / "p.npy"), std::runtime_error);
      stays = {};
    }
    earlier.expect_back(renamed ? "renamed" : "not yet");
  }
}

/// Before a long fit, not after it.
TEST(FitOutput, RefusesANameThatIsTooLongToKeep) {
  const TemporaryFolder folder;
  const LaidOutSource source(testing::layered_snapshots(9, 6), testing::six_layers());
  for (const std::size_t length : {230, 240}) {
    const auto npy = folder / (std::string(length, 'p') + ".npy");
    const auto made = [&] { require_replaceable(npy); };
    if (length == 230)
      made();
    else
      EXPECT_THROW(made(), std::exception);
  }
}

/// Nothing but a file goes.
TEST(FitOutput, RemovesWhatAKilledFitHasKept) {
  const TemporaryFolder folder;
  const LaidOutSource source(testing::layered_snapshots(9, 6), testing::six_layers());
  for (const int components : {3, 2}) {
    for (const auto& name : kept_names) put_file(folder / name, "earlier");
    fit(source, kind_options(Kind::pca, components), folder / "p.npy");
    EXPECT_EQ(testing::names_in(folder), (std::vector<std::string>{"p.json", "p.npy"}));
  }
  const auto before = text_of_file(folder / "p.npy");
  for (const auto& name : kept_names) {
    std::filesystem::create_symlink("p.json", folder / name);
    const auto refusal = thrown<std::invalid_argument>(
        [&] { fit(source, kind_options(Kind::pca, 1), folder / "p.npy"); });
    EXPECT_NE(refusal.find(name + "' is a link"), std::string::npos);
    std::filesystem::remove(folder / name);
    EXPECT_EQ(text_of_file(folder / "p.npy"), before);
    EXPECT_EQ(testing::names_in(folder), (std::vector<std::string>{"p.json", "p.npy"}));
  }
}

TEST(GramFile, DestroysNothing) {
  const TemporaryFolder folder;
  const auto source = testing::source_of(testing::random_matrix(6, 90, 4));
  fit(*source, kind_options(Kind::span, 6), folder / "w.npy");
  const auto matrix = open_source(folder / "w.npy");
  const std::string before = text_of_file(folder / "w.npy");
  FitOptions options = kind_options(Kind::pca, 2);
  const auto refusal = [&](const std::string& gram, const std::string& output) {
    options.gram = folder / gram;
    return thrown<std::invalid_argument>([&] { fit(*matrix, options, folder / output); });
  };
  EXPECT_NE(refusal("w.npy", "p.npy").find("an output other than the snapshots that the PCA reads"),
            std::string::npos);
  EXPECT_NE(refusal("p.npy", "p.npy").find("different files for the matrix"), std::string::npos);
  EXPECT_NE(refusal("g.txt", "p.npy").find("ends in .npy"), std::string::npos);
  EXPECT_NE(refusal("none/g.npy", "p.npy").find("folder"), std::string::npos);
  EXPECT_EQ(testing::names_in(folder), (std::vector<std::string>{"w.json", "w.npy"}));
  EXPECT_EQ(text_of_file(folder / "w.npy"), before);
}

}  // namespace
}  // namespace dimred::pca
