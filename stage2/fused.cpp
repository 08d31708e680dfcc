#include "stage2/fused.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "cuda/cuda.h"
#include "stage2/fused_cuda.h"
#include "support/errors.h"

namespace dimred::stage2::fused {

namespace {

/// The kernels, on the GPU that this program has found.
const cuda::Functions& kernels() {
  const auto* functions = cuda::library().functions;
  require_environment(functions != nullptr && functions->project != nullptr,
                      "[stage2] this build has no CUDA kernels, because it was made without nvcc; "
                      "give --device_algebra aten");
  return *functions;
}

/// P as the kernels take it; of none, `columns` without rows.
Matrix matrix_of(const torch::Tensor& basis, std::int64_t columns) {
  if (!basis.defined()) return {.columns = columns};
  check(basis.size(0) <= max_components, "P has no more rows than the kernels take");
  check(columns < 2 || basis.stride(1) == 1, "rows of P are contiguous");
  return {.values = basis.const_data_ptr(),
          .bfloat16 = basis.scalar_type() == torch::kBFloat16,
          .rows = basis.size(0),
          .columns = columns,
          .pitch = basis.stride(0)};
}

float* values_of(const torch::Tensor& vector, std::int64_t begin = 0) {
  if (!vector.defined()) return nullptr;
  check(vector.is_contiguous(), "a vector's values lie together");
  return vector.data_ptr<float>() + begin;
}

}  // namespace

torch::Tensor project(const Product& product) {
  check(product.others.size() <= max_others, "at most two vectors beside P");
  const c10::DeviceGuard guard(product.vector.device());
  Products in{.basis = matrix_of(product.basis, product.vector.numel()),
              .vector = values_of(product.vector)};
  in.rows = in.basis.rows;
  for (const auto& other : product.others) in.others[in.rows++ - in.basis.rows] = values_of(other);
  const auto partial = torch::empty({in.rows, tiles_of(in.basis.columns)},
                                    product.vector.options().dtype(torch::kFloat64));
  in.partial = partial.data_ptr<double>();
  kernels().project(
      in, at::accelerator::getCurrentStream(guard.current_device().index()).native_handle());
  return partial.sum(1);
}

torch::Tensor advance(const std::vector<Block>& blocks,
                      const method::Line& line,
                      const OwnVectors& vectors) {
  const c10::DeviceGuard guard(vectors.gradient.device());
  auto* stream = at::accelerator::getCurrentStream(guard.current_device().index()).native_handle();
  auto direction = torch::empty_like(vectors.gradient);
  std::size_t row = 0;
  const auto over = [&](const layout::ColumnRange& columns, const torch::Tensor& basis) {
    Advance in{.basis = matrix_of(basis, columns.size()),
               .gradient = values_of(vectors.gradient, columns.begin),
               .momentum = values_of(vectors.momentum, columns.begin),
               .gamma = static_cast<float>(line.gamma),
               .alpha = static_cast<float>(line.alpha),
               .direction = values_of(direction, columns.begin),
               .weights = values_of(vectors.weights, columns.begin),
               .start = values_of(vectors.start, columns.begin)};
    const std::size_t k = in.basis.rows;
    std::copy_n(line.direction.begin() + row, k, in.forward);  // rounded
    std::copy_n(line.projected.begin() + row, k, in.projected);
    row += k;
    kernels().advance(in, stream);
  };
  // Between the blocks P is zero: no rows.
  std::int64_t done = 0;
  for (const auto& [columns, basis] : blocks) {
    over({done, std::max(done, columns.begin)}, {});
    over(columns, basis);
    done = std::max(done, columns.end);
  }
  over({done, vectors.gradient.numel()}, {});
  return direction;
}

}  // namespace dimred::stage2::fused
