#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "support/bytes.h"

// Elements of safetensors' types as numbers, and their bits.
namespace dimred::verbs {

/// Holds every difference of two 64-bit integers.
using Whole = __int128;

template <class Number>
using NumbersOf = void (*)(const std::byte* stored, std::span<Number> numbers);

/// The most steps from float to float between elements of one place; two NaN lie none apart.
using UlpsOf = std::uint64_t (*)(const std::byte* a, const std::byte* b, std::size_t count);

/// A type whose elements are numbers: floats of 16 bits or more, or integers.
struct NumberType {
  std::string_view name;
  NumbersOf<double> reals = nullptr;  // of floats
  NumbersOf<Whole> wholes = nullptr;  // of integers
  UlpsOf ulps = nullptr;              // of floats
};

/// Returns the type as safetensors names it; null for types that are no numbers here: float8 and
/// smaller floats, complex numbers.
const NumberType* number_type(std::string_view dtype);

/// Returns true where both hold the same bytes, as many as `a` has.
bool are_same_bytes(ByteView a, ByteView b);

/// Counts the elements of `bits` bits that differ. Elements of less than a byte lie one behind the
/// other from the lowest bit on.
std::int64_t different_bits(std::size_t bits, ByteView a, ByteView b);

}  // namespace dimred::verbs
