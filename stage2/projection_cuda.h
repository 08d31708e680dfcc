#pragma once

#include <cstdint>
#include <vector>

// The same on a CUDA device; compiled from projection_cuda.cu where nvcc is there, else from
// projection_cuda_unavailable.cpp, whose functions throw std::runtime_error. Pointers on the
// device, `stream` is a cudaStream_t. Value: float, or std::uint16_t for the bits of bfloat16.
namespace dimred::stage2::cuda {

/// k at most: the kernels keep a column's coefficients in shared memory.
constexpr int max_components = 128;

template <class Value>
std::vector<double> project(
    const Value* basis, std::int64_t k, std::int64_t columns, const float* vector, void* stream);

/// first and second [k] on the host.
template <class Value>
void back_project(const Value* basis,
                  std::int64_t k,
                  std::int64_t columns,
                  const float* first,
                  const float* second,
                  float* out1,
                  float* out2,
                  void* stream);

}  // namespace dimred::stage2::cuda
