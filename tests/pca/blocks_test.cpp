#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "layout/shard.h"
#include "pca/basis.h"
#include "support/digest.h"
#include "support/errors.h"
#include "tests/pca/laid_out.h"
#include "tests/tools/thread_ranks.h"

namespace dimred::pca {
namespace {

using testing::columns_of;
using testing::kind_options;
using testing::LaidOutSource;
using testing::layered_snapshots;
using testing::Matrix;
using testing::orthonormality_error;
using testing::ranges_of;
using testing::read_matrix;
using testing::six_layers;
using testing::subspace_error;

/// The layers' PCA of 8 snapshots, 5 components.
struct Layers {
  TemporaryFolder folder;
  layout::Layout layout = six_layers();
  Matrix snapshots = layered_snapshots(8, 1);
  std::filesystem::path npy = folder / "p.npy";
  Sidecar report =
      fit(LaidOutSource(snapshots, layout), kind_options(Kind::pca, 5, Blocks::layers), npy).header;
};

TEST(Layers, HaveEachThePcaOfTheirOwnColumns) {
  const Layers layers;
  const Matrix basis = read_matrix(layers.npy);
  const std::vector<std::int64_t> rows{5, 1, 0, 5, 4, 5};  // one column, none that moves, four
  EXPECT_EQ(layers.report.block_components, rows);
  Eigen::VectorXd variances = Eigen::VectorXd::Zero(5);
  double total = 0;
  for (std::size_t b = 0; b < rows.size(); ++b) {
    SCOPED_TRACE(layers.layout.entries[b].name);
    const auto range = ranges_of(layers.layout)[b];
    const Matrix block = columns_of(basis, range);
    EXPECT_TRUE((block.bottomRows(5 - rows[b]).array() == 0).all());
    if (rows[b] == 0) continue;
    const Matrix used = block.topRows(rows[b]);
    const testing::Svd svd = testing::reference_svd(columns_of(layers.snapshots, range));
    EXPECT_LT(subspace_error(used, svd.rows.topRows(rows[b])), 2e-7);
    // Row by row, up to sign: gaps between singular values are 0.3 of them.
    const Matrix products = (used * svd.rows.topRows(rows[b]).transpose()).cwiseAbs();
    EXPECT_LT((products - Matrix::Identity(rows[b], rows[b])).cwiseAbs().maxCoeff(), 1e-6);
    EXPECT_LT(orthonormality_error(used), 2e-7);
    for (Eigen::Index j = 0; j < rows[b]; ++j) {
      EXPECT_EQ(used.row(j).maxCoeff(), used.row(j).cwiseAbs().maxCoeff()) << j;
      variances(j) += std::pow(svd.values(j), 2);
    }
    total += svd.values.squaredNorm();
  }
  for (Eigen::Index j = 0; j < 5; ++j) {
    const auto index = static_cast<std::size_t>(j);
    EXPECT_NEAR(layers.report.singular_values[index] / std::sqrt(variances(j)), 1, 1e-11);
    EXPECT_NEAR(layers.report.explained_variance_ratio[index], variances(j) / total, 1e-11);
  }
}

TEST(Layers, LeaveOutDirectionsThatAreRounding) {
  const TemporaryFolder folder;
  // As a softmax layer's bias: its sum stays what it is, up to the rounding of some steps to
  // float32. s_6 / s_1 is some 2e-7: in the eigenvalues 4e-14, 15 times what a whole P needs.
  Matrix snapshots = testing::random_matrix(12, 106, 8);
  snapshots.col(5) = Eigen::VectorXd::Ones(12) - snapshots.leftCols(5).rowwise().sum() +
                     1e-6 * testing::random_matrix(12, 1, 9);
  const LaidOutSource source(snapshots, testing::layout_of({{"bias", 6}, {"dense", 100}}));
  const Sidecar report =
      fit(source, kind_options(Kind::pca, 6, Blocks::layers), folder / "p.npy").header;
  EXPECT_EQ(report.block_components, (std::vector<std::int64_t>{5, 6}));
}

TEST(Layers, HoldTheWholeSpanOrRandomRows) {
  const TemporaryFolder folder;
  const layout::Layout layout = six_layers();
  const Matrix snapshots = layered_snapshots(6, 2);
  const LaidOutSource source(snapshots, layout);
  fit(source, kind_options(Kind::span, 6, Blocks::layers), folder / "span.npy");
  const Sidecar report =
      fit(source, kind_options(Kind::random, 6, Blocks::layers), folder / "random.npy").header;
  EXPECT_EQ(report.block_components, (std::vector<std::int64_t>{6, 1, 6, 6, 4, 6}));
  const Matrix span = read_matrix(folder / "span.npy");
  const Matrix random = read_matrix(folder / "random.npy");
  for (std::size_t b = 0; b < 6; ++b) {
    SCOPED_TRACE(layout.entries[b].name);
    const auto range = ranges_of(layout)[b];
    const Matrix rows = columns_of(snapshots, range).cast<float>().cast<double>();
    const Matrix block = columns_of(span, range);
    const Matrix residual = rows - (rows * block.transpose()) * block;
    EXPECT_LT(residual.norm(), 3e-7 * rows.norm());
    const auto count = std::min<std::int64_t>(6, range.size());
    EXPECT_LT(orthonormality_error(columns_of(random, range).topRows(count)), 5e-7);
    EXPECT_TRUE((columns_of(random, range).bottomRows(6 - count).array() == 0).all());
  }
}

TEST(Layers, GiveTheSameBitsForAnyTileSizeAndThreadCount) {
  testing::expect_same_bits(LaidOutSource(layered_snapshots(8, 3), six_layers()),
                            kind_options(Kind::shuffled, 5, Blocks::layers));
}

TEST(Layers, NeedALayoutAndSomethingThatMoves) {
  const TemporaryFolder folder;
  const FitOptions options = kind_options(Kind::pca, 2, Blocks::layers);
  const auto refusal = [&](const SnapshotSource& source) {
    return thrown<std::invalid_argument>([&] { fit(source, options, folder / "p.npy"); });
  };
  EXPECT_NE(refusal(*testing::source_of(testing::random_matrix(5, 40, 4)))
                .find("blocks = layers needs snapshots with layer names"),
            std::string::npos);
  const LaidOutSource still(Matrix::Constant(5, 30, 2), testing::layout_of({{"a", 10}, {"b", 20}}));
  EXPECT_NE(refusal(still).find("received 5 snapshots that span no direction in any layer"),
            std::string::npos);
  EXPECT_EQ(folder.count(), 0U);
}

/// The sidecar's text with other keys, and a checksum that holds.
std::string edited(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const auto key = text.rfind("\"checksum\"");
  const std::string checksum = digest(std::as_bytes(std::span(text.data(), key)));
  return text.replace(text.find_last_of('"') - 32, 32, checksum);
}

/// Blocks of a shard by the definition: the block of a memory column is that of its parameter.
std::vector<BasisBlock> expected_blocks(const layout::Layout& layout, const layout::Shard& shard) {
  std::vector<BasisBlock> blocks;
  std::int64_t own = 0;
  for (const layout::ColumnRange& range : shard.memory) {
    for (std::int64_t c = range.begin; c < range.end; ++c, ++own) {
      std::int64_t index = 0;
      for (std::size_t i = 0; i < layout.entries.size(); ++i) {
        if (layout.entries[i].memory_offset <= c) index = static_cast<std::int64_t>(i);
      }
      if (blocks.empty() || blocks.back().index != index) blocks.push_back({index, own, own});
      blocks.back().end = own + 1;
    }
  }
  return blocks;
}

TEST(LoadBasisOfLayers, SaysWhichColumnsAreWhichBlock) {
  const Layers layers;
  for (const int size : {1, 2, 3, 7}) {
    std::vector<Basis> parts(static_cast<std::size_t>(size));
    const auto outcomes = ThreadRanks(size).run([&](Communicator& ranks) {
      const auto shard = layout::shard_of(layers.layout, ranks.rank(), size);
      parts[static_cast<std::size_t>(ranks.rank())] =
          load_basis(layers.npy, layers.layout, shard, {}, ranks);
    });
    for (int rank = 0; rank < size; ++rank) {
      SCOPED_TRACE(formatted("{} of {}", rank, size));
      EXPECT_EQ(outcomes[static_cast<std::size_t>(rank)], "");
      const Basis& part = parts[static_cast<std::size_t>(rank)];
      EXPECT_EQ(part.block_count(), 6);
      EXPECT_EQ(part.blocks,
                expected_blocks(layers.layout, layout::shard_of(layers.layout, rank, size)));
      EXPECT_LT(part.header.orthonormality_error, 2.5e-7);
      EXPECT_EQ(part.header.orthonormality_error, parts[0].header.orthonormality_error);
    }
  }
}

TEST(LoadBasisOfLayers, NumbersBlocksInTheNetworksOrder) {
  const TemporaryFolder folder;
  const auto file = testing::layout_of({{"b", 50}, {"c", 7}, {"a", 100}});
  const auto network = testing::layout_of({{"a", 100}, {"b", 50}, {"c", 7}});
  fit(LaidOutSource(testing::random_matrix(5, 157, 5), file),
      kind_options(Kind::pca, 3, Blocks::layers),
      folder / "p.npy");
  const Basis basis = load_basis(folder / "p.npy", network, layout::shard_of(network, 0, 1));
  EXPECT_EQ(basis.blocks, (std::vector<BasisBlock>{{0, 0, 112}, {1, 112, 176}, {2, 176, 192}}));
  const Matrix rows = read_matrix(folder / "p.npy");
  EXPECT_EQ(basis.values[0], static_cast<float>(rows(0, 57)));
  EXPECT_EQ(basis.values[112], static_cast<float>(rows(0, 0)));
}

TEST(LoadBasisOfLayers, IsOneBlockWhereTheMatrixIsWhole) {
  const TemporaryFolder folder;
  const auto layout = six_layers();
  fit(LaidOutSource(layered_snapshots(6, 6), layout), kind_options(Kind::pca, 3), folder / "p.npy");
  const Basis basis = load_basis(folder / "p.npy", layout, layout::shard_of(layout, 0, 1));
  EXPECT_EQ(basis.block_count(), 1);
  EXPECT_EQ(basis.blocks, (std::vector<BasisBlock>{{0, 0, layout.memory_size}}));
}

TEST(LoadBasisOfLayers, SaysWhenTheSidecarIsMissing) {
  const Layers layers;
  std::filesystem::remove(layers.folder / "p.json");
  const auto whole = layout::shard_of(layers.layout, 0, 1);
  const auto load = [&](BasisDtype dtype) {
    return thrown<std::invalid_argument>(
        [&] { load_basis(layers.npy, layers.layout, whole, {.dtype = dtype}); });
  };
  const std::string text = load(BasisDtype::float32);
  EXPECT_NE(text.find("the file p.json is missing"), std::string::npos) << text;
  EXPECT_NE(text.find("norm sqrt(5)"), std::string::npos) << text;  // blocks with a first row
  EXPECT_NE(text.find("--blocks layers"), std::string::npos) << text;
  EXPECT_NE(load(BasisDtype::bfloat16).find("the file p.json is missing"), std::string::npos);
}

TEST(LoadBasisOfLayers, ChecksEachBlock) {
  const Layers layers;
  const auto whole = layout::shard_of(layers.layout, 0, 1);
  const auto load = [&](std::int64_t components) {
    return load_basis(layers.npy, layers.layout, whole, {.components = components})
        .header.orthonormality_error;
  };
  EXPECT_LT(load(0), 2.5e-7);
  EXPECT_LT(load(1), 2.5e-7);  // also of the first rows alone
  // Where two blocks are said to be one, its rows have norm sqrt(2).
  const std::string text = text_of_file(layers.folder / "p.json");
  const std::string merged = edited(text, "40002\n  ],\n  [\n   40002,\n   40006", "40006");
  put_file(layers.folder / "p.json", edited(merged, "  5,\n  4,\n", "  5,\n"));
  const std::string error = thrown<std::invalid_argument>([&] { load(0); });
  EXPECT_NE(error.find("needs orthonormal rows"), std::string::npos) << error;
}

TEST(LoadBasisOfLayers, TakesWhatBfloat16LeavesOfSmallBlocks) {
  const Layers layers;
  const auto whole = layout::shard_of(layers.layout, 0, 1);
  const Basis basis = load_basis(layers.npy, layers.layout, whole, {.dtype = BasisDtype::bfloat16});
  EXPECT_GT(basis.header.orthonormality_error,
            basis_tolerance);                                      // of the block of 4 columns
  EXPECT_LT(basis.header.orthonormality_error, 0x1p-7 + 0x1p-16);  // (1 + 2^-8)^2 - 1
}

TEST(Sidecar, OfBeforeThereWereKindsLoads) {
  const TemporaryFolder folder;
  const auto layout = six_layers();
  fit(LaidOutSource(layered_snapshots(6, 7), layout), kind_options(Kind::pca, 3), folder / "p.npy");
  const std::string text = text_of_file(folder / "p.json");
  put_file(folder / "p.json", edited(text, " \"kind\": \"pca\",\n", ""));
  EXPECT_EQ(load_basis(folder / "p.npy", layout, layout::shard_of(layout, 0, 1)).block_count(), 1);
  EXPECT_EQ(read_basis_header(folder / "p.npy").kind, Kind::pca);
}

TEST(Sidecar, WithBlocksThatDoNotFitIsDamaged) {
  const Layers layers;
  const std::string text = text_of_file(layers.folder / "p.json");
  const auto whole = layout::shard_of(layers.layout, 0, 1);
  const auto load = [&] { load_basis(layers.npy, layers.layout, whole); };
  // Gaps and overlaps; and blocks that cover the columns, but cut a parameter.
  put_file(layers.folder / "p.json", edited(text, "9001,\n   9601", "9001,\n   9600"));
  EXPECT_NE(thrown<std::runtime_error>(load).find("blocks do not cover"), std::string::npos);
  put_file(
      layers.folder / "p.json",
      edited(
          edited(text, "9001,\n   9601", "9001,\n   9600"), "9601,\n   40002", "9600,\n   40002"));
  EXPECT_NE(thrown<std::runtime_error>(load).find("each block needs to hold whole parameters"),
            std::string::npos);
}

TEST(BasisHeader, ShowsKindSeedAndBlocks) {
  const Layers layers;
  const Sidecar file = read_basis_header(layers.npy);
  ASSERT_TRUE(file.is_known());
  EXPECT_EQ(file.kind, Kind::pca);
  EXPECT_FALSE(file.seed.has_value());
  EXPECT_EQ(file.blocks, ranges_of(layers.layout));
  EXPECT_EQ(file.block_components, layers.report.block_components);
  EXPECT_EQ(layout_of(file).hash, layers.layout.hash);
  fit(LaidOutSource(layers.snapshots, layers.layout), kind_options(Kind::random, 2), layers.npy);
  EXPECT_EQ(read_basis_header(layers.npy).kind, Kind::random);
  EXPECT_EQ(read_basis_header(layers.npy).seed, std::uint64_t{7});
  EXPECT_TRUE(read_basis_header(layers.npy).blocks.empty());
}

}  // namespace
}  // namespace dimred::pca
