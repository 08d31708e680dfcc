#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

// Other float formats as float32, and back to bfloat16. None refuses a value: what is not finite
// stays so, and a float64 beyond the float32 range becomes an infinity, so that a caller that
// refuses values that are not finite (read_float_tensor, pca::fit, pca::load_basis) refuses these
// too, saying where they stand.
namespace dimred::checkpoints {

/// IEEE 754-2008 binary16: sign, 5 bits of exponent, 10 of mantissa. Exact.
inline float from_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  float value = std::ldexp(static_cast<float>(mantissa | (exponent != 0 ? 1024 : 0)),
                           (exponent != 0 ? exponent : 1) - 25);
  if (exponent == 31) {  // infinity, or NaN with its payload
    value = std::bit_cast<float>(0x7F800000U | static_cast<std::uint32_t>(mantissa) << 13);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

/// bfloat16: the upper half of a float32. Exact.
inline float from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// To bfloat16, rounded to nearest, ties to even; a NaN stays one.
inline std::uint16_t to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  const std::uint32_t up = 0x7FFFU + (bits >> 16 & 1U);  // half a unit, less one to an even value
  return static_cast<std::uint16_t>((nan ? bits | 0x400000U : bits + up) >> 16);
}

/// As a matrix in memory has it: float32 itself, or bfloat16 in 16 bits.
template <class Value>
Value stored(float value) {
  static_assert(std::is_same_v<Value, float> || std::is_same_v<Value, std::uint16_t>);
  if constexpr (std::is_same_v<Value, float>) {
    return value;
  } else {
    return to_bfloat(value);
  }
}

/// binary64, rounded to nearest.
inline float from_double(double value) { return static_cast<float>(value); }

}  // namespace dimred::checkpoints
