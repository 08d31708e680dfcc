#include "stage2/projection_device.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "stage2/projection_cuda.h"
#include "support/errors.h"

namespace dimred::stage2::device {
namespace {

c10::Stream stream_of(const torch::Device& device) {
  return at::accelerator::getCurrentStream(device.index());
}

/// P as the kernels take it; of none, `columns` without rows.
cuda::Basis basis_of(const torch::Tensor& basis, std::int64_t columns) {
  if (!basis.defined()) return cuda::Matrix<float>{.columns = columns};
  const auto rows = basis.size(0);
  const auto pitch = basis.stride(0);
  check(rows <= cuda::max_components, "P has no more rows than the kernels take");
  check(columns < 2 || basis.stride(1) == 1, "rows of P are contiguous");
  if (basis.scalar_type() != torch::kBFloat16)
    return cuda::Matrix<float>{basis.const_data_ptr<float>(), rows, columns, pitch};
  const auto* bits = reinterpret_cast<const std::uint16_t*>(basis.const_data_ptr<c10::BFloat16>());
  return cuda::Matrix<std::uint16_t>{bits, rows, columns, pitch};
}

cuda::Coefficients rounded(std::span<const double> first, std::span<const double> second) {
  cuda::Coefficients by;
  const auto nearest = [](double value) { return static_cast<float>(value); };
  std::ranges::transform(first, by.first, nearest);
  std::ranges::transform(second, by.second, nearest);
  return by;
}

/// Of a vector, from its column `begin` on; undefined: none.
float* values_of(const torch::Tensor& vector, std::int64_t begin = 0) {
  if (!vector.defined()) return nullptr;
  check(vector.is_contiguous(), "a vector's values lie together");
  return vector.data_ptr<float>() + begin;
}

std::int64_t rows_of(const Product& product) {
  return (product.basis.defined() ? product.basis.size(0) : 0) +
         static_cast<std::int64_t>(product.others.size());
}

/// Leaves the product's sums at `sums`.
void enqueue(const Product& product, double* sums, void* stream) {
  check(product.others.size() <= cuda::max_others, "at most two vectors beside P");
  std::vector<const float*> others;
  for (const auto& other : product.others) others.push_back(values_of(other));
  const auto columns = product.vector.numel();
  const auto partial = torch::empty({cuda::partial_sums(rows_of(product), columns)},
                                    product.vector.options().dtype(torch::kFloat64));
  cuda::project(basis_of(product.basis, columns),
                others,
                values_of(product.vector),
                partial.data_ptr<double>(),
                sums,
                stream);
}

}  // namespace

torch::Tensor aligned_rows(const torch::Tensor& rows, torch::Device device) {
  const std::int64_t unit = 128 / static_cast<std::int64_t>(rows.element_size());
  const auto pitch = (rows.size(1) + unit - 1) / unit * unit;
  const auto padded = torch::empty({rows.size(0), pitch}, rows.options().device(device));
  auto result = padded.narrow(1, 0, rows.size(1));
  // Row by row: a copy of all at once would pass through a second matrix on the device.
  for (std::int64_t i = 0; i < rows.size(0); ++i) result[i].copy_(rows[i]);
  return result;
}

training::HostCopy start_project(const std::vector<Product>& products) {
  std::int64_t count = 0;
  for (const auto& product : products) count += rows_of(product);
  const auto& like = products.front().vector;
  const c10::DeviceGuard guard(like.device());
  const auto stream = stream_of(like.device());
  const auto sums = torch::empty({count}, like.options().dtype(torch::kFloat64));
  auto* next = sums.data_ptr<double>();
  for (const auto& product : products) {
    enqueue(product, next, stream.native_handle());
    next += rows_of(product);
  }
  return training::read_back(sums);
}

std::pair<torch::Tensor, torch::Tensor> back_project(const torch::Tensor& basis,
                                                     std::span<const double> first,
                                                     std::span<const double> second) {
  const c10::DeviceGuard guard(basis.device());
  auto one = torch::empty({basis.size(1)}, basis.options().dtype(torch::kFloat32));
  auto two = torch::empty_like(one);
  const auto matrix = basis_of(basis, basis.size(1));
  cuda::back_project(matrix,
                     rounded(first, second),
                     one.data_ptr<float>(),
                     two.data_ptr<float>(),
                     stream_of(basis.device()).native_handle());
  return {one, two};
}

torch::Tensor advance(const Subspace& subspace,
                      const InsideStep& inside,
                      const OutsideStep& outside,
                      const torch::Tensor& weights,
                      const torch::Tensor& start) {
  const auto device = outside.gradient.device();
  const c10::DeviceGuard guard(device);
  auto* stream = stream_of(device).native_handle();
  auto direction = torch::empty_like(outside.gradient);
  std::size_t row = 0;
  const auto over = [&](const layout::ColumnRange& columns, const torch::Tensor& basis) {
    const auto matrix = basis_of(basis, columns.size());
    const auto k = static_cast<std::size_t>(basis.defined() ? basis.size(0) : 0);
    const auto by = rounded(inside.direction.subspan(row, k), inside.gradient.subspan(row, k));
    row += k;
    cuda::advance(matrix,
                  by,
                  {.gradient = values_of(outside.gradient, columns.begin),
                   .momentum = values_of(outside.momentum, columns.begin),
                   .gamma = static_cast<float>(outside.gamma),
                   .alpha = static_cast<float>(outside.alpha),
                   .direction = values_of(direction, columns.begin),
                   .weights = values_of(weights, columns.begin),
                   .start = values_of(start, columns.begin)},
                  stream);
  };
  // Between the blocks P is zero: no rows.
  std::int64_t done = 0;
  for (const auto& [columns, basis] : subspace.blocks) {
    if (done < columns.begin) over({done, columns.begin}, {});
    over(columns, basis);
    done = std::max(done, columns.end);
  }
  if (done < subspace.own_columns) over({done, subspace.own_columns}, {});
  return direction;
}

}  // namespace dimred::stage2::device
