// The algebra by ATen, which a device uses, on this processor against its own loops.
#include "stage2/projection_device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dimred::stage2 {
namespace {

/// Small small_integers: every product and sum is exact, so results must be equal.
torch::Tensor small_integers(torch::IntArrayRef shape) {
  return torch::randint(-3, 4, shape, torch::kFloat32);
}

std::vector<double> project_by_aten(const Product& product) {
  const auto sums = device::project(product);
  EXPECT_EQ(sums.scalar_type(), torch::kFloat64);
  return {sums.const_data_ptr<double>(), sums.const_data_ptr<double>() + sums.numel()};
}

TEST(AtenAlgebra, IsTheProcessorsOnIntegers) {
  torch::manual_seed(1);
  const std::vector<double> a{1, -2, 3, 0, 2};
  const std::vector<double> b{0, 1, 1, -4, 2};
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    for (const std::int64_t columns : {0, 1, 4095, 4096, 4097, 20001, (1 << 20) + 3}) {
      const auto basis = small_integers({5, columns}).to(dtype);
      const auto v = small_integers({columns});
      const auto expected = project({{.basis = basis, .vector = v, .others = {v}}});
      const auto [one, two] = back_project(basis, a, b);
      for (const auto& rows : {basis, device::aligned_rows(basis, torch::kCPU)}) {
        EXPECT_EQ(project_by_aten({.basis = rows, .vector = v, .others = {v}}), expected)
            << columns;
        const auto [first, second] = device::back_project(rows, a, b);
        EXPECT_TRUE(torch::equal(first, one) && torch::equal(second, two)) << columns;
      }
    }
  }
}

TEST(AtenAlgebra, AddsItsBlocksInFloat64) {
  for (const std::int64_t columns : {4097, 8192}) {
    auto basis = torch::zeros({1, columns});
    basis[0][0] = 0x1p24F;
    basis[0][4096] = 1;  // float32 has no 2^24 + 1
    EXPECT_EQ(project_by_aten({.basis = basis, .vector = torch::ones({columns})}),
              std::vector<double>{0x1p24 + 1});
  }
}

TEST(AtenAlgebra, PassesOnWhatIsNotANumber) {
  auto basis = torch::ones({3, 5000});
  basis[1][4500] = std::numeric_limits<float>::quiet_NaN();
  const auto g_k = project_by_aten({.basis = basis, .vector = torch::ones({5000})});
  EXPECT_TRUE(g_k[0] == 5000 && std::isnan(g_k[1]) && g_k[2] == 5000);
}

}  // namespace
}  // namespace dimred::stage2
