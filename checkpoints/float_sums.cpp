#include "checkpoints/float_sums.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "checkpoints/float_formats.h"
#include "support/errors.h"
#include "support/fast_clones.h"

namespace dimred::checkpoints {
namespace {

template <class Stored, auto to_value, auto from_sum>
struct Format {
  static double at(ByteView stored, std::size_t i) {
    Stored bits;
    std::memcpy(&bits, stored.data() + i * sizeof bits, sizeof bits);
    return static_cast<double>(to_value(bits));
  }
  /// The loop that every byte of every input goes through.
  DIMRED_FAST_CLONES static void add(ByteView stored,
                                     double coefficient,
                                     bool first,
                                     std::span<double> sums) {
    if (first) {
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = coefficient * at(stored, i);
    } else {
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += coefficient * at(stored, i);
    }
  }
  static void round(std::span<const double> sums, double divisor, std::span<std::byte> stored) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const Stored bits = from_sum(sums[i] / divisor);
      std::memcpy(stored.data() + i * sizeof bits, &bits, sizeof bits);
    }
  }
  static std::optional<std::int64_t> not_finite(ByteView stored) {
    constexpr double largest = std::numeric_limits<double>::max();
    const std::size_t count = stored.size() / sizeof(Stored);
    bool all = true;  // a loop without branches, as nearly all blocks are finite
    for (std::size_t i = 0; i < count; ++i) all &= std::abs(at(stored, i)) <= largest;
    if (all) return {};
    for (std::size_t i = 0; i < count; ++i)
      if (!std::isfinite(at(stored, i))) return static_cast<std::int64_t>(i);
    return {};
  }
  static bool zeros(ByteView stored) {
    for (std::size_t i = 0; i < stored.size() / sizeof(Stored); ++i)
      if (at(stored, i) != 0) return false;
    return true;
  }
};

using F64 = Format<double, [](double value) { return value; }, [](double sum) { return sum; }>;
using F32 = Format<float, [](float value) { return value; }, from_double>;
using BF16 = Format<std::uint16_t, from_bfloat, [](double sum) { return to_bfloat(to_odd(sum)); }>;
using F16 = Format<std::uint16_t, from_half, [](double sum) { return to_half(to_odd(sum)); }>;

/// use(format) of the type's name.
template <class Use>
auto with_format(std::string_view dtype, const Use& use) {
  if (dtype == "BF16") return use(BF16());
  if (dtype == "F32") return use(F32());
  if (dtype == "F16") return use(F16());
  check(dtype == "F64", "sums are of F64, F32, BF16 and F16");
  return use(F64());
}

}  // namespace

void add_stored(std::string_view dtype,
                ByteView stored,
                double coefficient,
                bool first,
                std::span<double> sums) {
  with_format(dtype, [&](auto format) { format.add(stored, coefficient, first, sums); });
}

std::optional<std::int64_t> store_rounded(std::string_view dtype,
                                          std::span<const double> sums,
                                          double divisor,
                                          std::span<std::byte> stored) {
  with_format(dtype, [&](auto format) { format.round(sums, divisor, stored); });
  return first_not_finite(dtype, ByteView(stored.data(), stored.size()));
}

std::optional<std::int64_t> store_within_range(std::string_view dtype,
                                               std::span<const double> sums,
                                               double divisor,
                                               const ScaledSums& scaled,
                                               std::span<std::byte> stored) {
  const auto begin = store_rounded(dtype, sums, divisor, stored);
  if (!begin) return {};
  std::vector<double> again(sums.size());
  scaled(again);
  store_rounded(dtype, sums, divisor, stored);
  const auto size = stored.size() / sums.size();
  std::optional<std::int64_t> bad;
  for (auto i = static_cast<std::size_t>(*begin); i < sums.size(); ++i) {
    const auto element = stored.subspan(i * size, size);
    if (!first_not_finite(dtype, element)) continue;
    const auto sum = std::span<const double>(again).subspan(i, 1);
    if (store_rounded(dtype, sum, divisor * overflow_scale, element) && !bad)
      bad = static_cast<std::int64_t>(i);
  }
  return bad;
}

std::optional<std::int64_t> first_not_finite(std::string_view dtype, ByteView stored) {
  return with_format(dtype, [&](auto format) { return format.not_finite(stored); });
}

bool all_zero(std::string_view dtype, ByteView stored) {
  return with_format(dtype, [&](auto format) { return format.zeros(stored); });
}

}  // namespace dimred::checkpoints
