#include "stage2/subspace.h"

#include <gtest/gtest.h>

namespace dimred::stage2 {
namespace {

TEST(Subspace, OfBlocksIsTheBlockDiagonalMatrix) {
  auto basis = torch::zeros({2, 6});
  basis.narrow(1, 0, 4).copy_(torch::randn({2, 4}));
  basis.narrow(1, 4, 2).copy_(torch::randn({2, 2}));
  const auto subspace = by_blocks(basis, {{0, 4}, {4, 6}});
  auto dense = torch::zeros({4, 6});
  dense.narrow(0, 0, 2).narrow(1, 0, 4).copy_(basis.narrow(1, 0, 4));
  dense.narrow(0, 2, 2).narrow(1, 4, 2).copy_(basis.narrow(1, 4, 2));
  const auto g = torch::randn({6});
  const auto g_k = project(subspace, g);
  const auto expected = project(dense, g);
  ASSERT_EQ(g_k.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(g_k[i], expected[i], 1e-6);
  const std::vector<double> a{1, -2, 3, 4}, b{0.5, 0, -1, 2};
  const auto [one, two] = back_project(subspace, a, b, g);
  const auto [first, second] = back_project(Subspace(dense), a, b, g);
  EXPECT_TRUE(torch::allclose(one, first));
  EXPECT_TRUE(torch::allclose(two, second));
}

}  // namespace
}  // namespace dimred::stage2
