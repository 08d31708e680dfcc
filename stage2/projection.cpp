#include "stage2/projection.h"

#include "stage2/fused.h"
#include "stage2/projection_cpu.h"
#include "stage2/projection_device.h"
#include "support/errors.h"

namespace dimred::stage2 {
namespace {

/// Checks the columns of a basis, or of a vector that is multiplied with another.
void require_columns(const torch::Tensor& rows, std::int64_t columns) {
  require(rows.size(-1) == columns,
          "[stage2] needs tensors of {} columns each, received one of shape {}",
          columns,
          rows.sizes());
}

/// The loops on the host read values one after another.
void require_contiguous(const torch::Tensor& rows) {
  require(rows.is_contiguous(),
          "[stage2] needs contiguous values, received {} with strides {}",
          rows.sizes(),
          rows.strides());
}

/// work(the basis's values), as the loops take them.
template <class Work>
auto with_values(const torch::Tensor& basis, const Work& work) {
  if (basis.scalar_type() != torch::kBFloat16) return work(basis.const_data_ptr<float>());
  return work(reinterpret_cast<const std::uint16_t*>(basis.const_data_ptr<c10::BFloat16>()));
}

std::vector<float> rounded(std::span<const double> values) {
  return {values.begin(), values.end()};
}

std::vector<double> project_on_host(const std::vector<Product>& products) {
  std::vector<double> sums;
  const auto append = [&sums](const torch::Tensor& rows, const torch::Tensor& vector) {
    for (const auto& values : {rows, vector}) require_contiguous(values);
    const auto part = with_values(rows, [&](const auto* p) {
      const auto columns = vector.numel();
      // A vector is a basis of one component: the same blocks, the same order.
      return cpu::project(
          p, rows.dim() == 1 ? 1 : rows.size(0), columns, vector.const_data_ptr<float>());
    });
    sums.insert(sums.end(), part.begin(), part.end());
  };
  for (const auto& [basis, vector, others, algebra] : products) {
    if (basis.defined()) append(basis, vector);
    for (const auto& other : others) append(other, vector);
  }
  return sums;
}

}  // namespace

engine::HostCopy start_project(const std::vector<Product>& products) {
  std::vector<torch::Tensor> sums;
  for (const auto& product : products) {
    const auto& [basis, vector, others, algebra] = product;
    if (basis.defined()) require_columns(basis, vector.numel());
    for (const auto& other : others) require_columns(other, vector.numel());
    if (!vector.is_cuda()) continue;
    sums.push_back(algebra == DeviceAlgebra::fused ? fused::project(product)
                                                   : device::project(product));
  }
  if (!sums.empty()) return engine::read_back(torch::cat(sums));
  return {torch::tensor(project_on_host(products), torch::kFloat64), {}};
}

std::vector<double> project(const std::vector<Product>& products) {
  const auto sums = start_project(products);
  const auto* values = sums.get().const_data_ptr<double>();
  return {values, values + sums.get().numel()};
}

std::vector<double> project(const torch::Tensor& basis, const torch::Tensor& vector) {
  return project({Product{.basis = basis, .vector = vector}});
}

double inner_product(const torch::Tensor& a, const torch::Tensor& b) {
  return project({Product{.vector = b, .others = {a}}})[0];
}

std::pair<torch::Tensor, torch::Tensor> back_project(const torch::Tensor& basis,
                                                     std::span<const double> first,
                                                     std::span<const double> second) {
  const auto k = basis.size(0);
  require(std::ssize(first) == k && std::ssize(second) == k,
          "[stage2] needs {} coefficients in each of two vectors, received {} and {}",
          k,
          first.size(),
          second.size());
  if (basis.is_cuda()) return device::back_project(basis, first, second);
  require_contiguous(basis);
  auto one = torch::empty({basis.size(1)}, basis.options().dtype(torch::kFloat32));
  auto two = torch::empty_like(one);
  const auto a = rounded(first);
  const auto b = rounded(second);
  with_values(basis, [&](const auto* p) {
    cpu::back_project(
        p, k, basis.size(1), a.data(), b.data(), one.data_ptr<float>(), two.data_ptr<float>());
  });
  return {one, two};
}

}  // namespace dimred::stage2
