#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "stage2/fused_cuda.h"
#include "stage2/fused_kernels.cuh"

namespace dimred::stage2::fused {

/// No empty grids.
template <class In>
static void run(void (*kernel)(In), std::int64_t blocks, const In& in, void* stream) {
  if (blocks == 0) return;
  kernel<<<static_cast<unsigned>(blocks), threads, 0, static_cast<cudaStream_t>(stream)>>>(in);
  const cudaError_t code = cudaGetLastError();
  if (code != cudaSuccess)
    throw std::runtime_error(std::string("[stage2] CUDA: ") + cudaGetErrorString(code));
}

void launch(const Products& in, void* stream) {
  const auto kernel = in.basis.bfloat16 ? project_tiles<std::uint16_t> : project_tiles<float>;
  run(kernel, tiles_of(in.basis.columns) * groups_of(in.rows), in, stream);
}

void launch(const Advance& in, void* stream) {
  const auto kernel = in.basis.bfloat16 ? advance_columns<std::uint16_t> : advance_columns<float>;
  run(kernel, (in.basis.columns + threads - 1) / threads, in, stream);
}

}  // namespace dimred::stage2::fused
