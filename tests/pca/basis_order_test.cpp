#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoints/safetensors.h"
#include "pca/basis.h"
#include "pca/source.h"
#include "support/errors.h"
#include "tests/pca/models.h"

namespace dimred::pca {
namespace {

using testing::in_memory_order;
using testing::Matrix;
using testing::model;
using testing::whole;

/// Nine safetensors files with the tensors in the order given, and the matrix fitted to them.
std::filesystem::path fit_safetensors(const TemporaryFolder& folder,
                                      const layout::Layout& order,
                                      const Matrix& snapshots) {
  for (Eigen::Index i = 0; i < snapshots.rows(); ++i) {
    std::vector<checkpoints::FloatTensor> tensors;
    for (const layout::Entry& entry : order.entries) {
      const Matrix part = snapshots.row(i).segment(entry.file_offset, entry.size);
      tensors.push_back({entry.name, entry.shape, testing::to_float(part)});
    }
    checkpoints::write_safetensors(folder / formatted("{}.safetensors", i), tensors);
  }
  fit(*open_source(folder.path()), testing::options_of(5), folder / "p.npy");
  return folder / "p.npy";
}

/// Columns of `rows`, which lie as in `from`, put in the order of `to`.
Matrix reordered(const Matrix& rows, const layout::Layout& from, const layout::Layout& to) {
  Matrix result(rows.rows(), rows.cols());
  for (const layout::Entry& target : to.entries) {
    for (const layout::Entry& source : from.entries) {
      if (source.name != target.name) continue;
      result.middleCols(target.file_offset, target.size) =
          rows.middleCols(source.file_offset, source.size);
    }
  }
  return result;
}

// Python's safetensors sorts by name, so conv1.bias precedes conv1.weight.
TEST(LoadBasis, FindsParametersOfAnotherOrderByName) {
  const TemporaryFolder folder;
  const layout::Layout network = model();  // 20,583 parameters: 2 digest blocks
  std::vector<layout::Parameter> parameters(network.entries.begin(), network.entries.end());
  std::ranges::sort(parameters, {}, &layout::Parameter::name);
  for (layout::Parameter& parameter : parameters) {
    parameter.memory_format = layout::MemoryFormat::contiguous;
  }
  const layout::Layout sorted = layout::make_layout(parameters);
  ASSERT_EQ(sorted.entries[0].name, "conv1.bias");
  const std::filesystem::path npy =
      fit_safetensors(folder, sorted, testing::random_matrix(9, sorted.file_size, 8));

  const std::vector<float> expected =
      in_memory_order(network, reordered(testing::read_matrix(npy), sorted, network));
  const Basis all = load_basis(npy, network, whole(network));
  EXPECT_TRUE(all.values == expected);
  EXPECT_LT(all.header.orthonormality_error, 1e-6);
  for (const int ranks : {2, 3}) {
    std::int64_t begin = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Basis part = load_basis(npy, network, layout::shard_of(network, rank, ranks));
      for (std::int64_t j = 0; j < part.header.components; ++j) {
        EXPECT_TRUE(std::equal(part.values.begin() + j * part.columns,
                               part.values.begin() + (j + 1) * part.columns,
                               expected.begin() + j * network.memory_size + begin))
            << ranks << ' ' << rank << ' ' << j;
      }
      begin += part.columns;
    }
    EXPECT_EQ(begin, network.memory_size);
  }

  // The digests are those of the file's columns: the last one is the end of dense.weight.
  std::string bytes = text_of_file(npy);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  put_file(npy, bytes);
  EXPECT_NE(thrown<std::runtime_error>([&] {
              load_basis(npy, network, whole(network));
            }).find("do not match the digest"),
            std::string::npos);
}

TEST(LoadBasis, RefusesTheSameNamesInOtherShapesOrOtherNames) {
  const TemporaryFolder folder;
  const auto layout_of = [](const char* first, const char* second, std::int64_t width) {
    return layout::make_layout({{first, {width, 12 / width}}, {second, {12}}});
  };
  const layout::Layout file = layout_of("a", "b", 3);
  const std::filesystem::path npy =
      fit_safetensors(folder, file, testing::random_matrix(9, file.file_size, 9));
  const auto refusal = [&](const layout::Layout& network) {
    return thrown<std::invalid_argument>([&] { load_basis(npy, network, whole(network)); });
  };
  EXPECT_EQ(refusal(layout::make_layout({{"b", {12}}, {"a", {3, 4}}})), "no exception");
  for (const layout::Layout& other :
       {layout_of("a", "b", 4),
        layout_of("a", "c", 3),
        layout_of("b", "a", 3),
        layout::make_layout({{"a", {24}}}),
        layout::make_layout({{"a", {3, 4}}, {"b", {6}}, {"c", {6}}})}) {
    EXPECT_NE(refusal(other).find("another model: "), std::string::npos) << refusal(other);
  }
}

}  // namespace
}  // namespace dimred::pca
