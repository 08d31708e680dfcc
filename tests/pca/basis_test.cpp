#include "pca/basis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "layout/shard.h"
#include "support/errors.h"
#include "tests/pca/matrices.h"
#include "tests/pca/models.h"
#include "tests/tools/thread_ranks.h"

namespace dimred::pca {
namespace {

using testing::Fitted;
using testing::in_memory_order;
using testing::Matrix;
using testing::model;
using testing::whole;
using testing::write_npy;

TEST(LoadBasis, ReadsBothOrdersAndTypesIntoMemoryOrder) {
  const TemporaryFolder folder;
  const layout::Layout layout = model();
  const Matrix rows = testing::random_rows(6, layout.file_size, 1);
  write_npy<float>(folder / "c4.npy", rows, false);
  write_npy<float>(folder / "f4.npy", rows, true);
  write_npy<double>(folder / "c8.npy", rows, false);
  write_npy<double>(folder / "f8.npy", rows, true);
  const std::vector<float> expected = in_memory_order(layout, rows);
  for (const char* name : {"c4.npy", "f4.npy", "c8.npy", "f8.npy"}) {
    const Basis basis = load_basis(folder / name, layout, whole(layout));
    EXPECT_EQ(basis.header.components, 6);
    EXPECT_EQ(basis.columns, layout.memory_size);
    EXPECT_TRUE(basis.values == expected) << name;
    EXPECT_LT(basis.header.orthonormality_error,
              1e-7);  // float32 rounding of entries of norm 1
    EXPECT_GT(basis.header.orthonormality_error, 0);
  }
  EXPECT_EQ(read_basis_header(folder / "c4.npy").parameters, layout.file_size);
  EXPECT_FALSE(read_basis_header(folder / "f8.npy").is_known());
}

TEST(LoadBasis, TakesTheFirstComponents) {
  const TemporaryFolder folder;
  const layout::Layout layout = model();
  const Matrix rows = testing::random_rows(6, layout.file_size, 2);
  write_npy<float>(folder / "p.npy", rows, false);
  const Basis basis = load_basis(folder / "p.npy", layout, whole(layout), {.components = 2});
  EXPECT_EQ(basis.header.components, 2);
  EXPECT_TRUE(basis.values == in_memory_order(layout, rows.topRows(2)));
  for (const std::int64_t components : {-1, 7}) {
    EXPECT_THROW(load_basis(folder / "p.npy", layout, whole(layout), {.components = components}),
                 std::invalid_argument);
  }
}

TEST(LoadBasis, OfShardsReassemblesTheWhole) {
  const Fitted fitted;
  const Basis all = load_basis(fitted.npy, fitted.layout, whole(fitted.layout));
  EXPECT_TRUE(all.values == in_memory_order(fitted.layout, testing::read_matrix(fitted.npy)));
  for (int ranks = 1; ranks <= 5; ++ranks) {
    std::int64_t begin = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const layout::Shard shard = layout::shard_of(fitted.layout, rank, ranks);
      const Basis part = load_basis(fitted.npy, fitted.layout, shard);
      ASSERT_EQ(part.columns, shard.memory_columns());
      EXPECT_EQ(std::isnan(part.header.orthonormality_error), ranks > 1);
      for (std::int64_t j = 0; j < 5; ++j) {
        EXPECT_TRUE(std::equal(part.values.begin() + j * part.columns,
                               part.values.begin() + (j + 1) * part.columns,
                               all.values.begin() + j * all.columns + begin))
            << ranks << ' ' << rank << ' ' << j;
      }
      begin += part.columns;
    }
    EXPECT_EQ(begin, all.columns);
  }
}

TEST(LoadBasis, SumsOrthonormalityOverRanks) {
  const Fitted fitted;
  const auto load = [&](Communicator& ranks, int part) {
    const layout::Shard shard = layout::shard_of(fitted.layout, part, 2);
    return load_basis(fitted.npy, fitted.layout, shard, {}, ranks).header.orthonormality_error;
  };
  for (const auto& text : ThreadRanks(2).run(
           [&](Communicator& ranks) { EXPECT_LT(load(ranks, ranks.rank()), 1e-6); })) {
    EXPECT_EQ(text, "");
  }
  // Twice the same half of P P' is not I.
  for (const auto& text : ThreadRanks(2).run([&](Communicator& ranks) { load(ranks, 1); })) {
    EXPECT_NE(text.find("needs orthonormal rows"), std::string::npos) << text;
  }
}

TEST(LoadBasis, RefusesRowsThatAreNotOrthonormal) {
  const TemporaryFolder folder;
  const layout::Layout layout = model();
  Matrix rows = testing::random_rows(4, layout.file_size, 4);
  rows.row(2) += 0.25 * rows.row(1);
  write_npy<float>(folder / "p.npy", rows, false);
  const std::string text =
      thrown<std::invalid_argument>([&] { load_basis(folder / "p.npy", layout, whole(layout)); });
  EXPECT_NE(text.find("<= 0.001, received 0.25"), std::string::npos) << text;
  EXPECT_TRUE(std::isnan(load_basis(folder / "p.npy", layout, whole(layout), {.tolerance = 0})
                             .header.orthonormality_error));
}

TEST(LoadBasis, RefusesAnotherModel) {
  const TemporaryFolder folder;
  const layout::Layout layout = model();
  write_npy<float>(folder / "p.npy", testing::random_rows(2, layout.file_size + 1, 5), false);
  const std::string size = formatted("{}", layout.file_size);
  const std::string text =
      thrown<std::invalid_argument>([&] { load_basis(folder / "p.npy", layout, whole(layout)); });
  EXPECT_NE(text.find("each of the " + size + " parameters"), std::string::npos) << text;
}

TEST(LoadBasis, RefusesValuesThatAreNotFinite) {
  const TemporaryFolder folder;
  const layout::Layout layout = model();
  Matrix rows = testing::random_rows(3, layout.file_size, 6);
  rows(1, 17000) = std::numeric_limits<double>::quiet_NaN();
  write_npy<float>(folder / "p.npy", rows, false);
  const std::string text =
      thrown<std::runtime_error>([&] { load_basis(folder / "p.npy", layout, whole(layout)); });
  EXPECT_NE(text.find("the value in row 1, column 17000 is not finite"), std::string::npos) << text;
}

TEST(LoadBasis, FindsAFlippedBitByTheDigests) {
  const Fitted fitted;
  const std::string bytes = text_of_file(fitted.npy);
  const layout::Shard last = layout::shard_of(fitted.layout, 4, 5);  // columns 48,000 and on
  for (const std::size_t position :
       std::vector<std::size_t>{132, 128 + 4 * 4 * 60000 - 5, bytes.size() - 1}) {
    std::string damaged = bytes;
    damaged[position] = static_cast<char>(damaged[position] ^ 1);
    put_file(fitted.npy, damaged);
    const std::string text = thrown<std::runtime_error>(
        [&] { load_basis(fitted.npy, fitted.layout, whole(fitted.layout), {.components = 2}); });
    EXPECT_NE(text.find("do not match the digest"), std::string::npos) << position << text;
    // A rank reads only the blocks that hold its columns.
    EXPECT_EQ(thrown<std::runtime_error>([&] { load_basis(fitted.npy, fitted.layout, last); }) ==
                  "no exception",
              position == 132);
  }
}

TEST(LoadBasis, RefusesADamagedOrForeignSidecar) {
  const Fitted fitted;
  const std::filesystem::path sidecar = fitted.folder / "p.json";
  const std::string text = text_of_file(sidecar);
  const auto load = [&] { load_basis(fitted.npy, fitted.layout, whole(fitted.layout)); };
  for (std::size_t i = 40; i < text.size(); i += text.size() / 60) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    put_file(sidecar, damaged);
    EXPECT_THROW(load(), std::exception) << i << damaged.substr(i - 10, 20);
  }
  put_file(sidecar, text.substr(0, text.size() / 2));
  EXPECT_NE(thrown<std::runtime_error>(load).find("damaged"), std::string::npos);
  put_file(sidecar, text.substr(0, text.size() - 1));
  EXPECT_NE(thrown<std::runtime_error>(load).find("the end of the file is missing"),
            std::string::npos);
  put_file(sidecar, "{\"components\": 5}");
  EXPECT_NE(thrown<std::invalid_argument>(load).find("move this file away"), std::string::npos);
  put_file(sidecar, text);
  EXPECT_NO_THROW(load());
  // Another matrix of the same model beside it, and one of another shape.
  const Matrix other = testing::random_rows(5, 60000, 7);
  write_npy<float>(fitted.npy, other, false);
  EXPECT_NE(thrown<std::runtime_error>(load).find("digest"), std::string::npos);
  write_npy<float>(fitted.npy, other.topRows(4), false);
  EXPECT_NE(thrown<std::runtime_error>(load).find("is another matrix"), std::string::npos);
  EXPECT_THROW(read_basis_header(fitted.npy), std::runtime_error);
  std::filesystem::remove(sidecar);
  EXPECT_NO_THROW(load());
}

}  // namespace
}  // namespace dimred::pca
