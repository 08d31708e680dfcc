#include "stage2/projection_cpu.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace dimred::stage2::cpu {
namespace {

// P streams by in panels: of each row a piece long enough for the hardware to read ahead, of the
// vector or the two results what the second-level cache holds. Sums inside a block are float32 in
// 16 lanes of 64 terms each, blocks are added in float64.
constexpr std::int64_t panel = 16384;
constexpr std::int64_t block = 1024;
constexpr std::int64_t lanes = 16;
constexpr std::int64_t rows_at_once = 4;

// The loader picks the version for the processor it finds.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DIMRED_VECTOR_VERSIONS \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DIMRED_VECTOR_VERSIONS
#endif

constexpr std::int64_t pieces_of(std::int64_t columns, std::int64_t width) {
  return (columns + width - 1) / width;
}

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

/// out1 += first' rows, out2 += second' rows, for rows_at_once rows.
DIMRED_VECTOR_VERSIONS void add_rows(const float* rows,
                                     std::int64_t columns,
                                     const float* first,
                                     const float* second,
                                     float* __restrict out1,
                                     float* __restrict out2,
                                     std::int64_t size) {
  for (std::int64_t j = 0; j < size; ++j) {
    float sum1 = out1[j];
    float sum2 = out2[j];
    for (std::int64_t i = 0; i < rows_at_once; ++i) {
      sum1 += first[i] * rows[i * columns + j];
      sum2 += second[i] * rows[i * columns + j];
    }
    out1[j] = sum1;
    out2[j] = sum2;
  }
}

DIMRED_VECTOR_VERSIONS void add_row(const float* row,
                                    float first,
                                    float second,
                                    float* __restrict out1,
                                    float* __restrict out2,
                                    std::int64_t size) {
  for (std::int64_t j = 0; j < size; ++j) {
    out1[j] += first * row[j];
    out2[j] += second * row[j];
  }
}

}  // namespace

std::vector<double> project(const float* basis,
                            std::int64_t k,
                            std::int64_t columns,
                            const float* vector) {
  const auto blocks = pieces_of(columns, block);
  std::vector<float> partial(static_cast<std::size_t>(blocks * k));
  at::parallel_for(0, pieces_of(columns, panel), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const auto last = std::min(columns, (p + 1) * panel);
      for (std::int64_t i = 0; i < k; ++i) {
        for (auto start = p * panel; start < last; start += block) {
          partial[static_cast<std::size_t>(start / block * k + i)] =
              block_dot(basis + i * columns + start, vector + start, std::min(block, last - start));
        }
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
  at::parallel_for(0, pieces_of(columns, panel), 1, [&](std::int64_t begin, std::int64_t end) {
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
        add_row(rows + i * columns, first[i], second[i], out1 + start, out2 + start, size);
      }
    }
  });
}

}  // namespace dimred::stage2::cpu
