#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "stage2/projection_cuda.h"

namespace dimred::stage2::cuda {
namespace {

constexpr int threads = 256;

void check_call(cudaError_t code, const char* call) {
  if (code != cudaSuccess) {
    throw std::runtime_error(std::string("[stage2::cuda] ") + call + ": " +
                             cudaGetErrorString(code));
  }
}

/// Device memory that frees itself.
template <class T>
class DeviceArray {
 public:
  DeviceArray(std::size_t count, cudaStream_t stream) : stream_(stream) {
    check_call(cudaMallocAsync(&data_, count * sizeof(T), stream), "cudaMallocAsync");
  }
  ~DeviceArray() { cudaFreeAsync(data_, stream_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
  cudaStream_t stream_;
};

__device__ float widened(float value) { return value; }

/// bfloat16 is the upper half of a float32.
__device__ float widened(std::uint16_t bits) {
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

/// partial[chunk, row] = sum over the chunk's columns; grid (chunks, k). Fixed tree: deterministic.
template <class Value>
__global__ void project_chunks(
    const Value* basis, long long columns, const float* vector, long long chunk, double* partial) {
  const Value* row = basis + blockIdx.y * columns;
  const long long begin = blockIdx.x * chunk;
  const long long end = min(begin + chunk, columns);
  double sum = 0;
  for (long long j = begin + threadIdx.x; j < end; j += threads)
    sum += static_cast<double>(widened(row[j])) * vector[j];
  __shared__ double sums[threads];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x * gridDim.y + blockIdx.y] = sums[0];
}

/// One thread a column: both results from one read of P's column.
template <class Value>
__global__ void back_project_columns(const Value* basis,
                                     int k,
                                     long long columns,
                                     const float* coefficients,
                                     float* out1,
                                     float* out2) {
  __shared__ float shared[2 * max_components];
  for (int i = threadIdx.x; i < 2 * k; i += threads) shared[i] = coefficients[i];
  __syncthreads();
  const long long j = static_cast<long long>(blockIdx.x) * threads + threadIdx.x;
  if (j >= columns) return;
  float a = 0;
  float b = 0;
  for (int i = 0; i < k; ++i) {
    const float p = widened(basis[i * columns + j]);
    a += shared[i] * p;
    b += shared[k + i] * p;
  }
  out1[j] = a;
  out2[j] = b;
}

}  // namespace

template <class Value>
std::vector<double> project(const Value* basis,
                            std::int64_t k,
                            std::int64_t columns,
                            const float* vector,
                            void* stream_handle) {
  if (columns == 0) return std::vector<double>(static_cast<std::size_t>(k));  // no empty grids
  auto* stream = static_cast<cudaStream_t>(stream_handle);
  constexpr std::int64_t chunk = 1 << 16;
  const auto chunks = static_cast<unsigned>((columns + chunk - 1) / chunk);
  const auto count = static_cast<std::size_t>(chunks) * static_cast<std::size_t>(k);
  const DeviceArray<double> partial(count, stream);
  project_chunks<<<dim3(chunks, static_cast<unsigned>(k)), threads, 0, stream>>>(
      basis, columns, vector, chunk, partial.data());
  check_call(cudaGetLastError(), "project_chunks");
  std::vector<double> host(count);
  check_call(
      cudaMemcpyAsync(
          host.data(), partial.data(), count * sizeof(double), cudaMemcpyDeviceToHost, stream),
      "cudaMemcpyAsync");
  check_call(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  std::vector<double> sums(static_cast<std::size_t>(k));
  for (std::size_t i = 0; i < count; ++i) sums[i % sums.size()] += host[i];
  return sums;
}

template <class Value>
void back_project(const Value* basis,
                  std::int64_t k,
                  std::int64_t columns,
                  const float* first,
                  const float* second,
                  float* out1,
                  float* out2,
                  void* stream_handle) {
  if (k > max_components)
    throw std::invalid_argument("[stage2::cuda] needs at most 128 components, received " +
                                std::to_string(k));
  if (columns == 0) return;
  auto* stream = static_cast<cudaStream_t>(stream_handle);
  std::vector<float> host(first, first + k);
  host.insert(host.end(), second, second + k);
  const DeviceArray<float> coefficients(host.size(), stream);
  check_call(cudaMemcpyAsync(coefficients.data(),
                             host.data(),
                             host.size() * sizeof(float),
                             cudaMemcpyHostToDevice,
                             stream),
             "cudaMemcpyAsync");
  const auto blocks = static_cast<unsigned>((columns + threads - 1) / threads);
  back_project_columns<<<blocks, threads, 0, stream>>>(
      basis, static_cast<int>(k), columns, coefficients.data(), out1, out2);
  check_call(cudaGetLastError(), "back_project_columns");
}

template std::vector<double> project(const float*, std::int64_t, std::int64_t, const float*, void*);
template std::vector<double> project(
    const std::uint16_t*, std::int64_t, std::int64_t, const float*, void*);
template void back_project(
    const float*, std::int64_t, std::int64_t, const float*, const float*, float*, float*, void*);
template void back_project(const std::uint16_t*,
                           std::int64_t,
                           std::int64_t,
                           const float*,
                           const float*,
                           float*,
                           float*,
                           void*);

}  // namespace dimred::stage2::cuda
