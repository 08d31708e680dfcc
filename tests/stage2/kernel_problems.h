#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "checkpoints/float_formats.h"
#include "tests/tools/host_grid.h"

// The kernels need the names above.
#include "stage2/kernel_columns.cuh"

// What the tests of the CUDA kernels on a processor share: they show what each thread does, not how
// fast, and not on a device.
namespace dimred::stage2::cuda {
namespace {

using checkpoints::stored;

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float untouched = 12345;  // around what is written
constexpr int slack = 8;            // values behind a row or vector that no kernel may use

/// Values from a boundary of 16 bytes, or `shift` values behind one, with `around` it.
template <class Value>
class Store {
 public:
  Store(std::int64_t size, int shift, float around = not_a_number)
      : values_(static_cast<std::size_t>(size + 2 * slack) + 16, stored<Value>(around)),
        data_(values_.data()) {
    while (!on_boundary(data_)) ++data_;
    data_ += shift;
  }
  Value* data() { return data_; }
  Value& operator[](std::int64_t i) { return data_[i]; }

 private:
  std::vector<Value> values_;
  Value* data_;
};

/// P [k x columns] with NaN between its rows, and a vector, or two right-hand sides.
template <class Value>
struct Problem {
  Problem(std::int64_t k, std::int64_t columns, int shift, float scale_range = 0)
      : pitch(shift == 0 ? (columns + slack + 7) / 8 * 8 : columns + slack + 1),
        p(k * pitch, shift),
        v(columns, shift),
        basis{p.data(), k, columns, pitch} {
    std::mt19937 generator(static_cast<unsigned>(k * 1000003 + columns));
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> exponent(-scale_range, scale_range);
    for (std::int64_t i = 0; i < k; ++i) {
      const float scale = std::pow(10.0F, exponent(generator));
      for (std::int64_t j = 0; j < columns; ++j)
        p[i * pitch + j] = stored<Value>(scale * normal(generator));
    }
    for (std::int64_t j = 0; j < columns; ++j) v[j] = normal(generator);
  }
  float at(std::int64_t i, std::int64_t j) { return widened(p[i * pitch + j]); }

  std::int64_t pitch;
  Store<Value> p;
  Store<float> v;
  Matrix<Value> basis;
};

}  // namespace
}  // namespace dimred::stage2::cuda
