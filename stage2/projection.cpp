#include "stage2/projection.h"

#include <c10/core/DeviceGuard.h>

#include "stage2/projection_cpu.h"
#include "stage2/projection_cuda.h"
#include "support/errors.h"

namespace dimred::stage2 {
namespace {

void require_columns(const torch::Tensor& basis, std::int64_t columns, const char* place) {
  require(basis.dim() == 2 && basis.is_contiguous() && basis.size(1) == columns,
          place,
          "needs a basis of ",
          columns,
          " columns, received ",
          basis.sizes());
}

/// PyTorch's current stream, without its CUDA headers: the default stream, which the trainers use.
void* stream_of(const torch::Tensor& /*tensor*/) { return nullptr; }

/// work(the basis's values), as the kernels take them.
template <class Work>
auto with_values(const torch::Tensor& basis, const Work& work) {
  if (basis.scalar_type() != torch::kBFloat16) return work(basis.const_data_ptr<float>());
  return work(reinterpret_cast<const std::uint16_t*>(basis.const_data_ptr<c10::BFloat16>()));
}

std::vector<float> rounded(std::span<const double> values) {
  return {values.begin(), values.end()};
}

}  // namespace

std::vector<double> project(const torch::Tensor& basis, const torch::Tensor& vector) {
  require_columns(basis, vector.numel(), "stage2::project");
  const c10::DeviceGuard guard(basis.device());
  const auto* v = vector.const_data_ptr<float>();
  return with_values(basis, [&](const auto* p) {
    if (basis.is_cuda()) return cuda::project(p, basis.size(0), basis.size(1), v, stream_of(basis));
    return cpu::project(p, basis.size(0), basis.size(1), v);
  });
}

std::pair<torch::Tensor, torch::Tensor> back_project(const torch::Tensor& basis,
                                                     std::span<const double> first,
                                                     std::span<const double> second) {
  const auto k = basis.size(0);
  require(
      static_cast<std::int64_t>(first.size()) == k && static_cast<std::int64_t>(second.size()) == k,
      "stage2::back_project",
      "needs ",
      k,
      " coefficients, received ",
      first.size(),
      " and ",
      second.size());
  const c10::DeviceGuard guard(basis.device());
  auto one = torch::empty({basis.size(1)}, basis.options().dtype(torch::kFloat32));
  auto two = torch::empty_like(one);
  const auto a = rounded(first);
  const auto b = rounded(second);
  auto* x = one.data_ptr<float>();
  auto* y = two.data_ptr<float>();
  with_values(basis, [&](const auto* p) {
    if (basis.is_cuda()) {
      cuda::back_project(p, k, basis.size(1), a.data(), b.data(), x, y, stream_of(basis));
    } else {
      cpu::back_project(p, k, basis.size(1), a.data(), b.data(), x, y);
    }
  });
  return {one, two};
}

double inner_product(const torch::Tensor& a, const torch::Tensor& b) {
  // A single row is a basis of one component: the same blocks, the same order.
  return project(a.view({1, -1}), b)[0];
}

}  // namespace dimred::stage2
