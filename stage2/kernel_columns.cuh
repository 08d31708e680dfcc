#pragma once

#include <cstdint>

#include "stage2/projection_cuda.h"

// Columns of P and of vectors, as the kernels read and write them. Plain CUDA, and no more of it
// than the tests can run on a processor (tests/tools/host_grid.h); unnamed, so that theirs and the
// device's never meet.
namespace dimred::stage2::cuda {
namespace {

constexpr int threads = 256;  // of a block

/// True where `load` and `store` may take 16 bytes at a time.
inline bool on_boundary(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

template <class Value>
bool on_boundary(const Matrix<Value>& basis) {
  return on_boundary(basis.values) && basis.pitch * static_cast<int>(sizeof(Value)) % 16 == 0;
}

__device__ float widened(float value) { return value; }

/// bfloat16 is the upper half of a float32.
__device__ float widened(std::uint16_t bits) {
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

/// `width` values: 1, or a multiple of 16 bytes on such a boundary. Each is read once in a kernel,
/// so none has to stay in a cache.
template <int width>
__device__ void load(const float* from, float* to) {
  if constexpr (width == 1) {
    to[0] = __ldcs(from);
  } else {
    for (int i = 0; i < width; i += 4) {
      const float4 four = __ldcs(reinterpret_cast<const float4*>(from + i));
      to[i] = four.x;
      to[i + 1] = four.y;
      to[i + 2] = four.z;
      to[i + 3] = four.w;
    }
  }
}

template <int width>
__device__ void load(const std::uint16_t* from, float* to) {
  if constexpr (width == 1) {
    to[0] = widened(__ldcs(from));
  } else {
    static_assert(width == 8, "16 bytes");
    const uint4 eight = __ldcs(reinterpret_cast<const uint4*>(from));
    const unsigned pairs[4] = {eight.x, eight.y, eight.z, eight.w};
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = __uint_as_float(pairs[i] << 16);
      to[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000U);
    }
  }
}

template <int width>
__device__ void store(float* to, const float* from) {
  if constexpr (width == 1) {
    to[0] = from[0];
  } else {
    for (int i = 0; i < width; i += 4) {
      *reinterpret_cast<float4*>(to + i) =
          make_float4(from[i], from[i + 1], from[i + 2], from[i + 3]);
    }
  }
}

}  // namespace
}  // namespace dimred::stage2::cuda
