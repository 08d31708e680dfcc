#include "checkpoints/verbs/compare.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "checkpoints/safetensors.h"
#include "checkpoints/verbs/number_types.h"
#include "support/errors.h"
#include "support/fast_clones.h"

namespace dimred::verbs {
namespace {

constexpr std::size_t elements_of_chunk = 1024;  // that are numbers at a time
constexpr double infinite = std::numeric_limits<double>::infinity();

/// Two elements.
struct Gap {
  double size = 0;       // |a - b|
  bool exact = true;     // the size is
  double magnitude = 0;  // |b|
  bool same = false;     // the values are, and the sign of a zero
};

Gap gap_of(double a, double b) {
  const bool both_nan = std::isnan(a) && std::isnan(b);
  const bool equal = a == b || both_nan;
  return {.size = equal ? 0 : std::abs(a - b),
          .magnitude = std::abs(b),
          .same = both_nan || (equal && std::signbit(a) == std::signbit(b))};
}

Gap gap_of(Whole a, Whole b) {
  constexpr Whole exact = Whole{1} << std::numeric_limits<double>::digits;
  const Whole size = a < b ? b - a : a - b;
  return {.size = static_cast<double>(size),
          .exact = size <= exact,
          .magnitude = std::abs(static_cast<double>(b)),
          .same = size == 0};
}

bool is_exact(Whole value) { return static_cast<Whole>(static_cast<double>(value)) == value; }

Gap gap_of(double a, Whole b) {
  auto gap = gap_of(a, static_cast<double>(b));
  gap.same = gap.same && is_exact(b);
  return gap;
}

Gap gap_of(Whole a, double b) {
  auto gap = gap_of(static_cast<double>(a), b);
  gap.same = gap.same && is_exact(a);
  return gap;
}

bool is_within(const Gap& gap, const Tolerance& tolerance) {
  if (gap.same || !tolerance.any() || gap.size == 0) return gap.same || tolerance.any();
  return gap.size <= tolerance.absolute + tolerance.relative * gap.magnitude &&
         std::isfinite(gap.magnitude);
}

/// The larger one, a NaN above all.
double larger(double a, double b) { return b <= a || std::isnan(a) ? a : b; }

/// In four sums side by side, so that none waits for the one before: nearly all chunks of
/// checkpoints that are the same come here.
template <class Number>
double sum_of_squares(std::span<const Number> values) {
  constexpr std::size_t sums = 4;
  double a = 0, b = 0, c = 0, d = 0;
  const auto square = [&](std::size_t i) {
    const auto real = static_cast<double>(values[i]);
    return real * real;
  };
  std::size_t i = 0;
  for (; i + sums <= values.size(); i += sums) {
    a += square(i);
    b += square(i + 1);
    c += square(i + 2);
    d += square(i + 3);
  }
  for (; i < values.size(); ++i) a += square(i);
  return (a + b) + (c + d);
}

template <class Number>
void add_equal(std::span<const Number> values, Distance& distance) {
  const double square = sum_of_squares(values);
  distance.product += square;
  distance.square_a += square;
  distance.square_b += square;
}

template <class A, class B>
std::int64_t count_different(std::span<const A> a,
                             std::span<const B> b,
                             const Tolerance& tolerance) {
  std::int64_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    different += is_within(gap_of(a[i], b[i]), tolerance) ? 0 : 1;
  return different;
}

/// The contribution of elements to a distance.
struct ElementSums {
  double product = 0, square_a = 0, square_b = 0, max_abs = 0, max_rel = 0;
};

void add_sums(const ElementSums& sums, Distance& distance) {
  distance.product += sums.product;
  distance.square_a += sums.square_a;
  distance.square_b += sums.square_b;
  distance.max_abs = larger(*distance.max_abs, sums.max_abs);
  distance.max_rel = larger(*distance.max_rel, sums.max_rel);
}

template <class A, class B>
void add_any(std::span<const A> a, std::span<const B> b, Distance& distance) {
  ElementSums sums;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    sums.product += x * y;
    sums.square_a += x * x;
    sums.square_b += y * y;
    const auto gap = gap_of(a[i], b[i]);
    sums.max_abs = larger(sums.max_abs, gap.exact ? gap.size : infinite);
    sums.max_rel = larger(sums.max_rel, gap.size == 0 ? 0 : gap.size / gap.magnitude);
  }
  add_sums(sums, distance);
}

/// Finds the largest distances, the loop that weights which differ go through. Maxima are those of
/// bits, which have the order of numbers that are not negative, and need no branch. max_abs is not
/// finite where an element is not.
DIMRED_FAST_CLONES ElementSums largest_gaps(std::span<const double> a, std::span<const double> b) {
  std::int64_t max_abs = 0, max_rel = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(a[i] - b[i]);
    const double part = apart / std::abs(b[i]);  // NaN of two zeros
    const auto apart_at_all = -static_cast<std::int64_t>(apart > 0);
    max_abs = std::max(max_abs, std::bit_cast<std::int64_t>(apart));
    max_rel = std::max(max_rel, std::bit_cast<std::int64_t>(part) & apart_at_all);
  }
  return {.max_abs = std::bit_cast<double>(max_abs), .max_rel = std::bit_cast<double>(max_rel)};
}

template <class A, class B>
void add_numbers(std::span<const A> a, std::span<const B> b, Distance& distance) {
  if constexpr (std::is_same_v<A, double> && std::is_same_v<B, double>) {
    auto sums = largest_gaps(a, b);
    if (!std::isfinite(sums.max_abs)) return add_any(a, b, distance);
    for (std::size_t i = 0; i < a.size(); ++i) {
      sums.product += a[i] * b[i];
      sums.square_a += a[i] * a[i];
      sums.square_b += b[i] * b[i];
    }
    add_sums(sums, distance);
  } else {
    add_any(a, b, distance);
  }
}

/// Two runs of elements whose types are numbers, a chunk at a time.
class NumberPair {
 public:
  NumberPair(const NumberType& a, const NumberType& b, const Tolerance& tolerance)
      : a_(a), b_(b), tolerance_(tolerance) {}

  Distance compare(const StoredElements& a, const StoredElements& b) {
    Distance distance{.same_bits = a_.name == b_.name, .max_abs = 0.0, .max_rel = 0.0};
    if (is_one_type() && a_.ulps != nullptr) distance.max_ulp = 0;
    const std::size_t unit_a = checkpoints::bits_of(a.dtype) / 8;
    const std::size_t unit_b = checkpoints::bits_of(b.dtype) / 8;
    const auto count = a.bytes.size() / unit_a;
    check(count * unit_b == b.bytes.size(), "two tensors of as many elements");
    distance.elements = static_cast<std::int64_t>(count);
    for (std::size_t first = 0; first < count; first += elements_of_chunk) {
      const auto size = std::min(elements_of_chunk, count - first);
      add({a.bytes.data() + first * unit_a, size * unit_a},
          {b.bytes.data() + first * unit_b, size * unit_b},
          size,
          distance);
    }
    return distance;
  }

 private:
  bool is_one_type() const { return &a_ == &b_; }
  bool counts_bits() const { return is_one_type() && !tolerance_.any(); }

  void add(ByteView a, ByteView b, std::size_t count, Distance& distance) {
    if (a_.reals != nullptr) {
      const auto reals = std::span(reals_a_).first(count);
      a_.reals(a.data(), reals);
      add_to(std::span<const double>(reals), a, b, distance);
    } else {
      const auto wholes = std::span(wholes_a_).first(count);
      a_.wholes(a.data(), wholes);
      add_to(std::span<const Whole>(wholes), a, b, distance);
    }
  }

  template <class Number>
  void add_to(std::span<const Number> numbers, ByteView a, ByteView b, Distance& distance) {
    if (is_one_type() && are_same_bytes(a, b)) return add_equal(numbers, distance);
    distance.same_bits = false;
    if (counts_bits()) *distance.different += different_bits(8 * a.size() / numbers.size(), a, b);
    add_other(numbers, b, distance);
    if (!distance.max_ulp) return;
    if (std::isnan(*distance.max_abs)) {
      distance.max_ulp.reset();
    } else {
      const auto ulps = a_.ulps(a.data(), b.data(), numbers.size());
      distance.max_ulp = std::max(*distance.max_ulp, ulps);
    }
  }

  template <class Number>
  void add_other(std::span<const Number> numbers, ByteView b, Distance& distance) {
    if (b_.reals != nullptr) {
      const auto reals = std::span(reals_b_).first(numbers.size());
      b_.reals(b.data(), reals);
      add_pair(numbers, std::span<const double>(reals), distance);
    } else {
      const auto wholes = std::span(wholes_b_).first(numbers.size());
      b_.wholes(b.data(), wholes);
      add_pair(numbers, std::span<const Whole>(wholes), distance);
    }
  }

  template <class A, class B>
  void add_pair(std::span<const A> a, std::span<const B> b, Distance& distance) {
    add_numbers(a, b, distance);
    if (!counts_bits()) *distance.different += count_different(a, b, tolerance_);
  }

  const NumberType& a_;
  const NumberType& b_;
  Tolerance tolerance_;
  std::array<double, elements_of_chunk> reals_a_{}, reals_b_{};
  std::array<Whole, elements_of_chunk> wholes_a_{}, wholes_b_{};
};

Distance compare_bits(const StoredElements& a, const StoredElements& b) {
  const auto bits = static_cast<std::size_t>(checkpoints::bits_of(a.dtype));
  Distance distance{.elements = static_cast<std::int64_t>(8 * a.bytes.size() / bits)};
  distance.different = different_bits(bits, a.bytes, b.bytes);
  distance.same_bits = distance.different == 0;
  return distance;
}

template <class Value>
std::optional<Value> larger_of_both(const std::optional<Value>& a, const std::optional<Value>& b) {
  if (!a || !b) return {};
  if constexpr (std::is_same_v<Value, double>) return larger(*a, *b);
  return std::max(*a, *b);
}

}  // namespace

void Distance::add(const Distance& next) {
  elements += next.elements;
  different =
      different && next.different ? std::optional(*different + *next.different) : std::nullopt;
  same_bits = same_bits && next.same_bits;
  max_abs = larger_of_both(max_abs, next.max_abs);
  max_rel = larger_of_both(max_rel, next.max_rel);
  max_ulp = larger_of_both(max_ulp, next.max_ulp);
  product += next.product;
  square_a += next.square_a;
  square_b += next.square_b;
}

std::optional<double> Distance::cosine() const {
  if (!max_abs || elements == 0) return {};
  if (same_bits) return 1;
  const double lengths = std::sqrt(square_a) * std::sqrt(square_b);
  const double cosine = product / lengths;
  if (!std::isfinite(lengths) || !std::isfinite(cosine)) return {};
  return std::clamp(cosine, -1.0, 1.0);
}

Distance compare(const StoredElements& a, const StoredElements& b, const Tolerance& tolerance) {
  const auto* const type_a = number_type(a.dtype);
  const auto* const type_b = number_type(b.dtype);
  if (type_a != nullptr && type_b != nullptr)
    return NumberPair(*type_a, *type_b, tolerance).compare(a, b);
  if (a.dtype == b.dtype) return compare_bits(a, b);
  const auto bits = checkpoints::bits_of(a.dtype);
  return {.elements = 8 * std::ssize(a.bytes) / bits, .different = {}, .same_bits = false};
}

}  // namespace dimred::verbs
