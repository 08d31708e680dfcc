#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "support/bytes.h"

namespace dimred::verbs {

/// Values a and b are within it where |a - b| <= absolute + relative |b|, as numpy.isclose has it.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
  /// Returns true where values count in the place of bits.
  bool any() const { return relative > 0 || absolute > 0; }
};

/// Elements as a file has them, one behind the other.
struct StoredElements {
  std::string_view dtype;  // as safetensors names it
  ByteView bytes;          // whole elements
};

/// How far the elements of two tensors lie apart. An optional without a value does not apply to the
/// types.
struct Distance {
  std::int64_t elements = 0;
  std::optional<std::int64_t> different = 0;
  bool same_bits = true;                 // and one type
  std::optional<double> max_abs;         // |a - b|; infinite for integers beyond 2^53 apart
  std::optional<double> max_rel;         // |a - b| / |b|; 0 where a = b
  std::optional<std::uint64_t> max_ulp;  // floats of the same type that lie between, plus one
  double product = 0;                    // sum of a b in float64
  double square_a = 0, square_b = 0;     // sums of a^2 and b^2

  /// Adds what the next elements of the same tensors gave.
  void add(const Distance& next);
  /// Returns the cosine of the angle between the tensors, 1 for the same bits; nothing for types
  /// without values here, for a tensor of zeros, for no elements.
  std::optional<double> cosine() const;
};

/// Compares as many elements of `a` as of `b`, in float64, or exactly where both are integers.
/// Without a tolerance, elements of one type are the same if their bits are; elements of two types
/// if their values are, where any NaN is any other and -0 is not 0. Within a tolerance, two NaN are
/// the same, an infinity is itself alone, and -0 is 0. A NaN in one of two elements makes max_abs
/// and max_rel NaN, and leaves max_ulp without a value. Types of less than a byte, float8 and
/// complex numbers are compared by bits alone. Types that cannot be compared give only the number
/// of elements.
Distance compare(const StoredElements& a, const StoredElements& b, const Tolerance& tolerance = {});

}  // namespace dimred::verbs
