#include "stage2/projection_device.h"

#include <ATen/Context.h>

#include <algorithm>

#include "support/ceiling.h"

namespace dimred::stage2::device {
namespace {

constexpr std::int64_t block = 4096;     // columns whose products are summed in float32
constexpr std::int64_t piece = 1 << 20;  // columns of a bfloat16 P that are widened at a time

/// work(first column, values) over P in float32.
template <class Work>
void in_float32(const torch::Tensor& basis, const Work& work) {
  const auto columns = basis.size(1);
  if (basis.scalar_type() == torch::kFloat32) return work(0, basis);
  for (std::int64_t begin = 0; begin < columns; begin += piece)
    work(begin, basis.narrow(1, begin, std::min(piece, columns - begin)).to(torch::kFloat32));
}

/// rows v [k] float64.
torch::Tensor sums_of(const torch::Tensor& rows, const torch::Tensor& vector) {
  const auto blocks = vector.numel() / block;
  const auto whole = blocks * block;
  const auto rest = vector.numel() - whole;
  auto sums = torch::mv(rows.narrow(1, whole, rest), vector.narrow(0, whole, rest));
  if (blocks == 0) return sums.to(torch::kFloat64);
  const auto by_block = rows.narrow(1, 0, whole).unflatten(1, {blocks, block}).transpose(0, 1);
  const auto partial = torch::bmm(by_block, vector.narrow(0, 0, whole).reshape({blocks, block, 1}));
  return partial.squeeze(2).sum(0, false, torch::kFloat64).add_(sums);
}

}  // namespace

torch::Tensor aligned_rows(const torch::Tensor& rows, torch::Device device) {
  const std::int64_t unit = 128 / rows.element_size();
  const auto pitch = ceiling(rows.size(1), unit) * unit;
  const auto padded = torch::empty({rows.size(0), pitch}, rows.options().device(device));
  auto result = padded.narrow(1, 0, rows.size(1));
  // Row by row: a copy of all at once would pass through a second matrix on the device.
  for (std::int64_t i = 0; i < rows.size(0); ++i) result[i].copy_(rows[i]);
  return result;
}

torch::Tensor project(const Product& product) {
  const at::NoTF32Guard all_bits;
  const auto& vector = product.vector;
  std::vector<torch::Tensor> sums;
  if (product.basis.defined()) {
    sums.push_back(torch::zeros({product.basis.size(0)}, vector.options().dtype(torch::kFloat64)));
    in_float32(product.basis, [&](std::int64_t begin, const torch::Tensor& rows) {
      sums.front() += sums_of(rows, vector.narrow(0, begin, rows.size(1)));
    });
  }
  for (const auto& other : product.others) sums.push_back(sums_of(other.unsqueeze(0), vector));
  return torch::cat(sums);
}

std::pair<torch::Tensor, torch::Tensor> back_project(const torch::Tensor& basis,
                                                     std::span<const double> first,
                                                     std::span<const double> second) {
  const at::NoTF32Guard all_bits;
  std::vector<float> values(first.begin(), first.end());
  values.insert(values.end(), second.begin(), second.end());
  const auto by = torch::tensor(values).view({2, basis.size(0)}).to(basis.device(), true);
  const auto both = torch::empty({2, basis.size(1)}, basis.options().dtype(torch::kFloat32));
  in_float32(basis, [&](std::int64_t begin, const torch::Tensor& rows) {
    auto part = both.narrow(1, begin, rows.size(1));
    torch::mm_out(part, by, rows);
  });
  return {both[0], both[1]};
}

}  // namespace dimred::stage2::device
