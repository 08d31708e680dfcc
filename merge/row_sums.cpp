#include "merge/row_sums.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "checkpoints/float_sums.h"
#include "support/bytes.h"
#include "support/errors.h"
#include "support/parallel.h"

namespace dimred::merge {
namespace {

template <class Value>
constexpr auto dtype_of = std::is_same_v<Value, float> ? "F32" : "F64";

void read_row(const pca::SnapshotSource& source,
              std::int64_t row,
              std::int64_t begin,
              std::span<float> out) {
  source.read(row, begin, out);
}
void read_row(const pca::SnapshotSource& source,
              std::int64_t row,
              std::int64_t begin,
              std::span<double> out) {
  source.read_float64(row, begin, out);
}

/// The columns from `begin` on, as many as `out` has; the weights and the divisor of the sum are
/// multiplied by `scale`. The first column whose sum is not finite; nothing where all are.
template <class Value>
std::optional<std::int64_t> combine_block(const pca::SnapshotSource& source,
                                          std::span<const std::int64_t> taken,
                                          const Coefficients& coefficients,
                                          std::int64_t begin,
                                          double scale,
                                          std::span<Value> out) {
  std::vector<double> sums(out.size());
  bool first = true;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (coefficients.weights[i] == 0) continue;
    read_row(source, taken[i], begin, out);
    const ByteView stored(out);
    if (const auto bad = checkpoints::first_not_finite(dtype_of<Value>, stored))
      refuse("[merge] {} has a value that is not finite, at column {}",
             source.info().names[taken[i]],
             begin + *bad);
    checkpoints::add_stored(dtype_of<Value>, stored, scale * coefficients.weights[i], first, sums);
    first = false;
  }
  const auto bad = checkpoints::store_rounded(
      dtype_of<Value>, sums, scale * coefficients.divisor, std::as_writable_bytes(out));
  if (!bad) return {};
  return begin + *bad;
}

}  // namespace

template <class Value>
void combine_rows(const pca::SnapshotSource& source,
                  std::span<const std::int64_t> taken,
                  const Coefficients& coefficients,
                  std::span<Value> out,
                  std::int64_t threads) {
  check(std::cmp_equal(out.size(), source.columns()) && taken.size() == coefficients.weights.size(),
        "an output as long as a row, and a weight for each row");
  constexpr std::int64_t block = 65'536;
  const auto columns = std::ssize(out);
  in_parallel((columns + block - 1) / block, threads, [&](std::int64_t i) {
    const auto begin = i * block;
    const auto part = out.subspan(begin, std::min(block, columns - begin));
    auto bad = combine_block(source, taken, coefficients, begin, 1, part);
    if (bad && std::is_same_v<Value, double>)
      bad = combine_block(source, taken, coefficients, begin, overflow_scale, part);
    if (bad)
      refuse("[merge] the sum at column {} is beyond the range of {}", *bad, dtype_of<Value>);
  });
}

template void combine_rows(const pca::SnapshotSource&,
                           std::span<const std::int64_t>,
                           const Coefficients&,
                           std::span<float>,
                           std::int64_t);
template void combine_rows(const pca::SnapshotSource&,
                           std::span<const std::int64_t>,
                           const Coefficients&,
                           std::span<double>,
                           std::int64_t);

void RowMean::add(std::span<const float> row) {
  sums_.resize(row.size());
  checkpoints::add_stored("F32", row, 1, false, sums_);
  ++count_;
}

std::vector<float> RowMean::values() const {
  std::vector<float> values(sums_.size());
  checkpoints::store_rounded(
      "F32", sums_, static_cast<double>(count_), std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace dimred::merge
