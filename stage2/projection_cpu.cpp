#include "stage2/projection_cpu.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace dimred::stage2::cpu {
namespace {

// A block's part of the vector and of two results stays in the first-level cache while k rows of P
// stream by. Sums inside a block are float32 in 16 lanes of 64 terms each, blocks are added in
// float64.
constexpr std::int64_t block = 1024;
constexpr std::int64_t lanes = 16;

// The loader picks the version for the processor it finds.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DIMRED_VECTOR_VERSIONS \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DIMRED_VECTOR_VERSIONS
#endif

std::int64_t blocks_of(std::int64_t columns) { return (columns + block - 1) / block; }

DIMRED_VECTOR_VERSIONS float block_dot(const float* a, const float* b, std::int64_t size) {
  float sums[lanes] = {};
  const auto whole = size / lanes * lanes;
  for (std::int64_t j = 0; j < whole; j += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) sums[lane] += a[j + lane] * b[j + lane];
  }
  float total = 0;
  for (const float sum : sums) total += sum;
  for (std::int64_t j = whole; j < size; ++j) total += a[j] * b[j];
  return total;
}

DIMRED_VECTOR_VERSIONS void block_back_project(const float* basis,
                                               std::int64_t k,
                                               std::int64_t columns,
                                               const float* first,
                                               const float* second,
                                               float* __restrict out1,
                                               float* __restrict out2,
                                               std::int64_t size) {
  std::fill(out1, out1 + size, 0.0F);
  std::fill(out2, out2 + size, 0.0F);
  for (std::int64_t i = 0; i < k; ++i) {
    const float* row = basis + i * columns;
    const float a = first[i];
    const float b = second[i];
    for (std::int64_t j = 0; j < size; ++j) {
      out1[j] += a * row[j];
      out2[j] += b * row[j];
    }
  }
}

}  // namespace

std::vector<double> project(const float* basis,
                            std::int64_t k,
                            std::int64_t columns,
                            const float* vector) {
  const auto blocks = blocks_of(columns);
  std::vector<float> partial(static_cast<std::size_t>(blocks * k));
  at::parallel_for(0, blocks, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const auto start = b * block;
      const auto size = std::min(block, columns - start);
      for (std::int64_t i = 0; i < k; ++i) {
        partial[static_cast<std::size_t>(b * k + i)] =
            block_dot(basis + i * columns + start, vector + start, size);
      }
    }
  });
  std::vector<double> sums(static_cast<std::size_t>(k));
  for (std::int64_t b = 0; b < blocks; ++b) {
    for (std::int64_t i = 0; i < k; ++i)
      sums[static_cast<std::size_t>(i)] += partial[static_cast<std::size_t>(b * k + i)];
  }
  return sums;
}

void back_project(const float* basis,
                  std::int64_t k,
                  std::int64_t columns,
                  const float* first,
                  const float* second,
                  float* out1,
                  float* out2) {
  at::parallel_for(0, blocks_of(columns), 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const auto start = b * block;
      block_back_project(basis + start,
                         k,
                         columns,
                         first,
                         second,
                         out1 + start,
                         out2 + start,
                         std::min(block, columns - start));
    }
  });
}

}  // namespace dimred::stage2::cpu
