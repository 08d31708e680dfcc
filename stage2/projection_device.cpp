#include "stage2/projection_device.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/DeviceGuard.h>

#include <array>

#include "stage2/projection_cuda.h"
#include "support/errors.h"

namespace dimred::stage2::device {
namespace {

c10::Stream stream_of(const torch::Device& device) {
  return at::accelerator::getCurrentStream(device.index());
}

template <class Value>
cuda::Matrix<Value> matrix_of(const torch::Tensor& basis, const Value* values) {
  check(basis.size(1) < 2 || basis.stride(1) == 1, "rows of P are contiguous");
  return {values, basis.size(0), basis.size(1), basis.stride(0)};
}

/// work(the basis as the kernels take it); of no basis, `columns` without rows.
template <class Work>
void with_matrix(const torch::Tensor& basis, std::int64_t columns, const Work& work) {
  if (!basis.defined()) {
    work(cuda::Matrix<float>{.columns = columns});
  } else if (basis.scalar_type() == torch::kBFloat16) {
    const auto* values = basis.const_data_ptr<c10::BFloat16>();
    work(matrix_of(basis, reinterpret_cast<const std::uint16_t*>(values)));
  } else {
    work(matrix_of(basis, basis.const_data_ptr<float>()));
  }
}

using Coefficients = std::array<float, cuda::max_components>;

/// They travel as a kernel's parameters, so they may go out of scope at once.
Coefficients rounded(std::span<const double> values) {
  require(values.size() <= cuda::max_components,
          "stage2::device",
          "needs at most ",
          cuda::max_components,
          " components, received ",
          values.size());
  Coefficients result{};
  std::transform(
      values.begin(), values.end(), result.begin(), [](double v) { return static_cast<float>(v); });
  return result;
}

std::int64_t rows_of(const Product& product) {
  return (product.basis.defined() ? product.basis.size(0) : 0) +
         static_cast<std::int64_t>(product.others.size());
}

/// Leaves the product's sums at `sums`.
void enqueue(const Product& product, double* sums, void* stream) {
  check(product.others.size() <= cuda::max_others, "at most two vectors beside P");
  std::vector<const float*> others;
  for (const auto& other : product.others) others.push_back(other.const_data_ptr<float>());
  const auto columns = product.vector.numel();
  const auto partial = torch::empty({cuda::partial_sums(rows_of(product), columns)},
                                    product.vector.options().dtype(torch::kFloat64));
  with_matrix(product.basis, columns, [&](const auto& matrix) {
    cuda::project(matrix,
                  others,
                  product.vector.const_data_ptr<float>(),
                  partial.data_ptr<double>(),
                  sums,
                  stream);
  });
}

float* values_of(const torch::Tensor& vector) {
  return vector.defined() ? vector.data_ptr<float>() : nullptr;
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

std::vector<double> project(const std::vector<Product>& products) {
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
  auto host = torch::empty({count}, torch::TensorOptions(torch::kFloat64).pinned_memory(true));
  host.copy_(sums, /*non_blocking=*/true);
  stream.synchronize();
  const auto* values = host.const_data_ptr<double>();
  return {values, values + count};
}

std::pair<torch::Tensor, torch::Tensor> back_project(const torch::Tensor& basis,
                                                     std::span<const double> first,
                                                     std::span<const double> second) {
  const c10::DeviceGuard guard(basis.device());
  auto one = torch::empty({basis.size(1)}, basis.options().dtype(torch::kFloat32));
  auto two = torch::empty_like(one);
  with_matrix(basis, basis.size(1), [&](const auto& matrix) {
    cuda::back_project(matrix,
                       rounded(first).data(),
                       rounded(second).data(),
                       one.data_ptr<float>(),
                       two.data_ptr<float>(),
                       stream_of(basis.device()).native_handle());
  });
  return {one, two};
}

void advance(const torch::Tensor& basis,
             std::span<const double> d,
             std::span<const double> g_k,
             const Advance& to) {
  const c10::DeviceGuard guard(to.gradient.device());
  const cuda::Advance pointers{.gradient = values_of(to.gradient),
                               .momentum = values_of(to.momentum),
                               .gamma = static_cast<float>(to.gamma),
                               .alpha = static_cast<float>(to.alpha),
                               .direction = values_of(to.direction),
                               .weights = values_of(to.weights),
                               .start = values_of(to.start)};
  with_matrix(basis, to.gradient.numel(), [&](const auto& matrix) {
    cuda::advance(matrix,
                  rounded(d).data(),
                  rounded(g_k).data(),
                  pointers,
                  stream_of(to.gradient.device()).native_handle());
  });
}

}  // namespace dimred::stage2::device
