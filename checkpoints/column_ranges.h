#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "layout/shard.h"
#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred::checkpoints {

/// The elements of a vector in a file that are to be read, one range after another; unset: all.
using ColumnRanges = std::optional<std::vector<layout::ColumnRange>>;

/// Reads these ranges of a vector of `count` elements that begins at byte `offset`. Throws
/// std::invalid_argument for a range outside the vector.
template <class T>
std::vector<T> read_columns(const InputFile& file,
                            std::int64_t offset,
                            std::int64_t count,
                            const ColumnRanges& columns) {
  const auto ranges = columns.value_or(std::vector<layout::ColumnRange>{{0, count}});
  std::int64_t size = 0;
  for (const auto& [begin, end] : ranges) {
    require(0 <= begin && begin <= end && end <= count,
            "[checkpoints] needs ranges within the {} elements of each vector in '{}', received "
            "[{}, {})",
            count,
            file.path(),
            begin,
            end);
    size += end - begin;
  }
  std::vector<T> values(size);
  auto rest = std::span(values);
  for (const auto& range : ranges) {
    const auto part = rest.first(range.size());
    file.read(offset + range.begin * std::int64_t{sizeof(T)}, std::as_writable_bytes(part));
    rest = rest.subspan(part.size());
  }
  return values;
}

/// Returns the place in the vector of the i-th element read.
inline std::int64_t index_in_vector(const ColumnRanges& columns, std::int64_t i) {
  if (!columns) return i;
  for (const auto& range : *columns) {
    if (i < range.size()) return range.begin + i;
    i -= range.size();
  }
  return i;
}

}  // namespace dimred::checkpoints
