#include "merge/row_sums.h"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>

#include "checkpoints/float_sums.h"
#include "support/bytes.h"
#include "support/ceiling.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/text.h"

namespace dimred::merge {
namespace {

template <class Value>
constexpr auto dtype_of = std::is_same_v<Value, float> ? "F32" : "F64";

/// The columns of a block, from `begin` on.
template <class Value>
struct RowBlock {
  const pca::SnapshotSource* source;
  std::span<const std::int64_t> taken;
  const Coefficients* coefficients;
  std::int64_t begin;
  std::span<Value> out;
  std::span<std::string> digests;  // of the rows' columns, by their places in `taken`

  /// The sums of the rows, their weights times `scale`. `out` is where they are read to.
  void add(double scale, std::span<double> sums) const {
    bool first = true;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (coefficients->weights[i] == 0) continue;
      if constexpr (std::is_same_v<Value, float>)
        source->read(taken[i], begin, out);
      else
        source->read_float64(taken[i], begin, out);
      const ByteView stored(out);
      if (scale == 1) digests[i] = digest(stored);
      if (const auto bad = checkpoints::first_not_finite(dtype_of<Value>, stored))
        refuse("[merge] {} has a value that is not finite, at column {}",
               source->info().names[taken[i]],
               begin + *bad);
      checkpoints::add_stored(
          dtype_of<Value>, stored, scale * coefficients->weights[i], first, sums);
      first = false;
    }
  }

  /// Fills `out`. The first of its columns whose sum is not finite; nothing where all are.
  std::optional<std::int64_t> combine() const {
    std::vector<double> sums(out.size());
    add(1, sums);
    const auto stored = std::as_writable_bytes(out);
    if (std::is_same_v<Value, float>)
      return checkpoints::store_rounded(dtype_of<Value>, sums, coefficients->divisor, stored);
    const auto scaled = [&](std::span<double> again) { add(checkpoints::overflow_scale, again); };
    return checkpoints::store_within_range(
        dtype_of<Value>, sums, coefficients->divisor, scaled, stored);
  }
};

}  // namespace

template <class Value>
std::vector<std::string> combine_rows(const pca::SnapshotSource& source,
                                      std::span<const std::int64_t> taken,
                                      const Coefficients& coefficients,
                                      std::span<Value> out,
                                      std::int64_t threads) {
  check(std::cmp_equal(out.size(), source.columns()) && taken.size() == coefficients.weights.size(),
        "an output as long as a row, and a weight for each row");
  constexpr std::int64_t block = 65'536;
  const auto columns = std::ssize(out);
  const auto blocks = ceiling(columns, block);
  std::vector<std::vector<std::string>> digests(blocks, std::vector<std::string>(taken.size()));
  in_parallel(blocks, threads, [&](std::int64_t i) {
    const auto begin = i * block;
    const auto part = out.subspan(begin, std::min(block, columns - begin));
    const RowBlock<Value> one{&source, taken, &coefficients, begin, part, digests[i]};
    if (const auto bad = one.combine())
      refuse(
          "[merge] the sum at column {} is beyond the range of {}", begin + *bad, dtype_of<Value>);
  });
  std::vector<std::string> of_rows(taken.size());
  for (std::size_t row = 0; row < taken.size(); ++row) {
    if (coefficients.weights[row] == 0) continue;
    const auto all = joined(digests, "", [&](const auto& of_block) { return of_block[row]; });
    of_rows[row] = digest(std::as_bytes(std::span(all)));
  }
  return of_rows;
}

template std::vector<std::string> combine_rows(const pca::SnapshotSource&,
                                               std::span<const std::int64_t>,
                                               const Coefficients&,
                                               std::span<float>,
                                               std::int64_t);
template std::vector<std::string> combine_rows(const pca::SnapshotSource&,
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
