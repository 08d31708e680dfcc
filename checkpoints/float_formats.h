#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

// Other float formats as float32, and back to bfloat16. None refuses a value: what is not finite
// stays so, and a float64 beyond the float32 range becomes an infinity, so that a caller that
// refuses values that are not finite (read_weights, pca::fit, pca::load_basis) refuses these too,
// saying where they stand.
namespace dimred::checkpoints {

/// IEEE 754-2008 binary16: sign, 5 bits of exponent, 10 of mantissa. Exact.
inline float from_half(std::uint16_t bits) {
  const auto magnitude = static_cast<std::int32_t>(bits & 0x7FFFU) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  // The exponents' biases differ by 112; an infinity, or NaN with its payload, has all bits set.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const std::uint32_t beyond = magnitude >= 0x0F800000 ? 0x7F800000U : 0;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | beyond | sign);
}

/// To binary16, rounded to nearest, ties to even, beyond its range to an infinity; a NaN stays one.
inline std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return sign | 0x7E00U;
  if (magnitude >= 0x477FF000U) return sign | 0x7C00U;  // 65520 and more
  if (magnitude < 0x38800000U) {                        // subnormal there: units of 2^-24
    // 0.5 has the unit 2^-24 in float32, so the sum is rounded to it.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return sign | static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(sum) - 0x3F000000U);
  }
  const std::uint32_t up = 0xFFFU + (magnitude >> 13 & 1U);
  return sign | static_cast<std::uint16_t>((magnitude + up - 0x38000000U) >> 13);
}

/// To float32, rounded to odd: a value that is not exact gets the neighbour whose last bit is 1, so
/// that rounding once more, to bfloat16 or binary16, gives what rounding once does (Boldo and
/// Melquiond, IEEE Transactions on Computers 57(4), 2008).
inline float to_odd(double value) {
  const auto near = static_cast<float>(value);
  auto bits = std::bit_cast<std::uint32_t>(near);
  if (static_cast<double>(near) == value || value != value) return near;
  if (std::abs(static_cast<double>(near)) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1U);
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
