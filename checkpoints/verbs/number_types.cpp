#include "checkpoints/verbs/number_types.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "checkpoints/float_formats.h"
#include "support/fast_clones.h"

namespace dimred::verbs {
namespace {

template <class Stored>
Stored stored_at(const std::byte* stored, std::size_t i) {
  Stored value;
  std::memcpy(&value, stored + i * sizeof value, sizeof value);
  return value;
}

template <class Stored, class Number, auto number_of>
void read_numbers(const std::byte* stored, std::span<Number> numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = number_of(stored_at<Stored>(stored, i));
}

/// Holds the place of a float among all of its type, and the distance of two places.
template <class Bits>
using PlaceOf =
    std::conditional_t<sizeof(Bits) == sizeof(std::int64_t), std::int64_t, std::int32_t>;

/// The place of a float among all of its type, by size; both zeros have place 0. No branch, as
/// signs of weights are random.
template <class Bits>
PlaceOf<Bits> ulp_place(Bits bits) {
  constexpr int sign_bit = 8 * sizeof(Bits) - 1;
  constexpr Bits sign = Bits{1} << sign_bit;
  const auto magnitude = static_cast<PlaceOf<Bits>>(bits & static_cast<Bits>(~sign));
  const auto negative = static_cast<PlaceOf<Bits>>(-static_cast<PlaceOf<Bits>>(bits >> sign_bit));
  return (magnitude ^ negative) - negative;
}

template <class Bits, Bits infinity>
bool is_nan_of(Bits bits) {
  return static_cast<Bits>(bits << 1) > static_cast<Bits>(infinity << 1);
}

/// The largest distance of two places; two NaN have none. Masks stand for conditions, as above.
template <class Bits, Bits infinity>
DIMRED_FAST_CLONES std::uint64_t largest_ulps(const std::byte* a,
                                              const std::byte* b,
                                              std::size_t count) {
  using Ulps = std::make_unsigned_t<PlaceOf<Bits>>;
  Ulps largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto x = stored_at<Bits>(a, i), y = stored_at<Bits>(b, i);
    const auto from = static_cast<Ulps>(ulp_place(x)), to = static_cast<Ulps>(ulp_place(y));
    const auto backward = static_cast<Ulps>(-static_cast<Ulps>(ulp_place(x) > ulp_place(y)));
    const auto number = static_cast<Ulps>(
        -static_cast<Ulps>(!is_nan_of<Bits, infinity>(x) & !is_nan_of<Bits, infinity>(y)));
    largest = std::max(largest, (((to - from) ^ backward) - backward) & number);
  }
  return largest;
}

template <class Stored, auto real_of, class Bits, Bits infinity>
constexpr NumberType float_type(std::string_view name) {
  return {name, read_numbers<Stored, double, real_of>, nullptr, largest_ulps<Bits, infinity>};
}

template <class Stored>
constexpr NumberType integer_type(std::string_view name) {
  return {name, nullptr, read_numbers<Stored, Whole, [](Stored value) { return Whole{value}; }>};
}

constexpr auto real_of_half = [](std::uint16_t bits) -> double {
  return checkpoints::from_half(bits);
};
constexpr auto real_of_bfloat = [](std::uint16_t bits) -> double {
  return checkpoints::from_bfloat(bits);
};
constexpr auto real_of_float = [](float value) -> double { return value; };
constexpr auto real_itself = [](double value) { return value; };

constexpr std::array number_types{
    float_type<std::uint16_t, real_of_half, std::uint16_t, 0x7C00>("F16"),
    float_type<std::uint16_t, real_of_bfloat, std::uint16_t, 0x7F80>("BF16"),
    float_type<float, real_of_float, std::uint32_t, 0x7F800000>("F32"),
    float_type<double, real_itself, std::uint64_t, 0x7FF0000000000000>("F64"),
    integer_type<std::uint8_t>("BOOL"),
    integer_type<std::uint8_t>("U8"),
    integer_type<std::int8_t>("I8"),
    integer_type<std::uint16_t>("U16"),
    integer_type<std::int16_t>("I16"),
    integer_type<std::uint32_t>("U32"),
    integer_type<std::int32_t>("I32"),
    integer_type<std::uint64_t>("U64"),
    integer_type<std::int64_t>("I64")};

template <class Bits>
std::int64_t different_units(ByteView a, ByteView b) {
  std::int64_t different = 0;
  for (std::size_t i = 0; i < a.size() / sizeof(Bits); ++i)
    different += stored_at<Bits>(a.data(), i) != stored_at<Bits>(b.data(), i) ? 1 : 0;
  return different;
}

std::int64_t different_parts(std::size_t bits, ByteView a, ByteView b) {
  std::int64_t different = 0;
  for (std::size_t first = 0; first + bits <= 8 * a.size(); first += bits) {
    bool differs = false;
    for (std::size_t bit = first; bit < first + bits; ++bit)
      differs |= (((a[bit / 8] ^ b[bit / 8]) >> bit % 8) & std::byte{1}) != std::byte{0};
    different += differs ? 1 : 0;
  }
  return different;
}

}  // namespace

const NumberType* number_type(std::string_view dtype) {
  const auto* const found = std::ranges::find(number_types, dtype, &NumberType::name);
  return found == number_types.end() ? nullptr : found;
}

bool are_same_bytes(ByteView a, ByteView b) {
  return a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0;
}

std::int64_t different_bits(std::size_t bits, ByteView a, ByteView b) {
  if (are_same_bytes(a, b)) return 0;
  if (bits == 64) return different_units<std::uint64_t>(a, b);
  if (bits == 32) return different_units<std::uint32_t>(a, b);
  if (bits == 16) return different_units<std::uint16_t>(a, b);
  if (bits == 8) return different_units<std::uint8_t>(a, b);
  return different_parts(bits, a, b);
}

}  // namespace dimred::verbs
