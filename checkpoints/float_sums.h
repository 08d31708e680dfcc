#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "support/bytes.h"

// Sums in float64 of what files hold in F64, F32, BF16 or F16.
namespace dimred::checkpoints {

/// sums[i] (+)= coefficient * stored[i], for as many elements of `dtype` as `stored` has; the first
/// input of a sum replaces what is there, so that -0 stays -0.
void add_stored(std::string_view dtype,
                ByteView stored,
                double coefficient,
                bool first,
                std::span<double> sums);

/// The sums, each divided by `divisor` and rounded once (to nearest, ties to even), as `dtype` has
/// them in a file. The first element that is not finite then; nothing where all are.
std::optional<std::int64_t> store_rounded(std::string_view dtype,
                                          std::span<const double> sums,
                                          double divisor,
                                          std::span<std::byte> stored);

/// Coefficients and divisor times this, where a sum of float64 itself overflows; the quotient need
/// not.
inline constexpr double overflow_scale = 0x1p-32;

/// Fills in the same sums, with each coefficient times overflow_scale.
using ScaledSums = std::function<void(std::span<double> sums)>;

/// As store_rounded(), but an element that is not finite then is stored from its scaled sum; the
/// others, which a scale could round to 0, keep their own. `scaled` is called only where there is
/// one, and may use `stored`. Memory: the scaled sums then.
std::optional<std::int64_t> store_within_range(std::string_view dtype,
                                               std::span<const double> sums,
                                               double divisor,
                                               const ScaledSums& scaled,
                                               std::span<std::byte> stored);

/// The first element that is not finite; nothing where all are.
std::optional<std::int64_t> first_not_finite(std::string_view dtype, ByteView stored);

/// Returns whether all elements are 0 or -0.
bool all_zero(std::string_view dtype, ByteView stored);

}  // namespace dimred::checkpoints
