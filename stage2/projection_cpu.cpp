#include "stage2/projection_cpu.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <type_traits>

#include "checkpoints/float_formats.h"
#include "support/ceiling.h"

namespace dimred::stage2::cpu {
namespace {

// P streams by in panels: of each row a piece long enough for the hardware to read ahead, of the
// vector or the two results what the second-level cache holds. Sums inside a block are float32 in
// 16 lanes of 64 terms each, blocks are added in float64.
constexpr std::int64_t panel = 16384;
constexpr std::int64_t block = 1024;
constexpr std::int64_t lanes = 16;
constexpr int rows_at_once = 8;  // each pass over them reads and writes both results once

// The loader picks the version for the processor it finds; the thread sanitizer would be called
// then, before it is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define DIMRED_VECTOR_VERSIONS \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DIMRED_VECTOR_VERSIONS
#endif

/// A value of P as float32, which is exact: bfloat16 is the upper half of one.
template <class Value>
[[gnu::always_inline]] inline float widened(Value value) {
  if constexpr (std::is_same_v<Value, float>) {
    return value;
  } else {
    return checkpoints::from_bfloat(value);
  }
}

// Loops over both types of P; each type has its versions for processors below.
template <class Value>
[[gnu::always_inline]] inline float dot(const Value* a, const float* b, std::int64_t size) {
  float sums[lanes] = {};
  const auto whole = size / lanes * lanes;
  for (std::int64_t j = 0; j < whole; j += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      sums[lane] += widened(a[j + lane]) * b[j + lane];
  }
  float total = 0;
  for (const float sum : sums) total += sum;
  for (std::int64_t j = whole; j < size; ++j) total += widened(a[j]) * b[j];
  return total;
}

/// out1 += first' rows, out2 += second' rows, for `count` rows.
template <int count, class Value>
[[gnu::always_inline]] inline void add_group(const Value* rows,
                                             std::int64_t columns,
                                             const float* first,
                                             const float* second,
                                             float* __restrict out1,
                                             float* __restrict out2,
                                             std::int64_t size) {
  for (std::int64_t j = 0; j < size; ++j) {
    float sum1 = out1[j];
    float sum2 = out2[j];
    for (std::int64_t i = 0; i < count; ++i) {
      const float p = widened(rows[i * columns + j]);
      sum1 += first[i] * p;
      sum2 += second[i] * p;
    }
    out1[j] = sum1;
    out2[j] = sum2;
  }
}

DIMRED_VECTOR_VERSIONS float block_dot(const float* a, const float* b, std::int64_t size) {
  return dot(a, b, size);
}

DIMRED_VECTOR_VERSIONS float block_dot(const std::uint16_t* a, const float* b, std::int64_t size) {
  return dot(a, b, size);
}

/// For rows_at_once rows.
DIMRED_VECTOR_VERSIONS void add_rows(const float* rows,
                                     std::int64_t columns,
                                     const float* first,
                                     const float* second,
                                     float* __restrict out1,
                                     float* __restrict out2,
                                     std::int64_t size) {
  add_group<rows_at_once>(rows, columns, first, second, out1, out2, size);
}

DIMRED_VECTOR_VERSIONS void add_rows(const std::uint16_t* rows,
                                     std::int64_t columns,
                                     const float* first,
                                     const float* second,
                                     float* __restrict out1,
                                     float* __restrict out2,
                                     std::int64_t size) {
  add_group<rows_at_once>(rows, columns, first, second, out1, out2, size);
}

DIMRED_VECTOR_VERSIONS void add_row(const float* row,
                                    const float* first,
                                    const float* second,
                                    float* __restrict out1,
                                    float* __restrict out2,
                                    std::int64_t size) {
  add_group<1>(row, size, first, second, out1, out2, size);
}

DIMRED_VECTOR_VERSIONS void add_row(const std::uint16_t* row,
                                    const float* first,
                                    const float* second,
                                    float* __restrict out1,
                                    float* __restrict out2,
                                    std::int64_t size) {
  add_group<1>(row, size, first, second, out1, out2, size);
}

}  // namespace

template <class Value>
std::vector<double> project(const Value* basis,
                            std::int64_t k,
                            std::int64_t columns,
                            const float* vector) {
  const auto blocks = ceiling(columns, block);
  std::vector<float> partial(blocks * k);
  at::parallel_for(0, ceiling(columns, panel), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const auto last = std::min(columns, (p + 1) * panel);
      for (std::int64_t i = 0; i < k; ++i) {
        for (auto start = p * panel; start < last; start += block) {
          partial[start / block * k + i] =
              block_dot(basis + i * columns + start, vector + start, std::min(block, last - start));
        }
      }
    }
  });
  std::vector<double> sums(k);
  for (std::int64_t b = 0; b < blocks; ++b) {
    for (std::int64_t i = 0; i < k; ++i) sums[i] += partial[b * k + i];
  }
  return sums;
}

template <class Value>
void back_project(const Value* basis,
                  std::int64_t k,
                  std::int64_t columns,
                  const float* first,
                  const float* second,
                  float* out1,
                  float* out2) {
  at::parallel_for(0, ceiling(columns, panel), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const auto start = p * panel;
      const auto size = std::min(panel, columns - start);
      std::fill_n(out1 + start, size, 0.0F);
      std::fill_n(out2 + start, size, 0.0F);
      const auto* rows = basis + start;
      std::int64_t i = 0;
      for (; i + rows_at_once <= k; i += rows_at_once) {
        add_rows(
            rows + i * columns, columns, first + i, second + i, out1 + start, out2 + start, size);
      }
      for (; i < k; ++i) {
        add_row(rows + i * columns, first + i, second + i, out1 + start, out2 + start, size);
      }
    }
  });
}

template std::vector<double> project(const float*, std::int64_t, std::int64_t, const float*);
template std::vector<double> project(const std::uint16_t*,
                                     std::int64_t,
                                     std::int64_t,
                                     const float*);
template void back_project(
    const float*, std::int64_t, std::int64_t, const float*, const float*, float*, float*);
template void back_project(
    const std::uint16_t*, std::int64_t, std::int64_t, const float*, const float*, float*, float*);

}  // namespace dimred::stage2::cpu
