#include "pca/borders.h"

#include <algorithm>

#include "support/ceiling.h"

namespace dimred::pca {

Borders::Borders(const MatrixShape& shape, const layout::ColumnRange& own) : shape_(shape) {
  const auto page = shape.page_bytes;
  std::int64_t start = 0;
  const auto add = [&](const layout::ColumnRange& columns) {
    pieces_.push_back({columns, start});
    start += columns.size();
  };
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const auto first = shape.offset(row, 0);
    auto begin = (ceiling(first + own.begin * 4, page) * page - first) / 4;
    auto end = ((first + own.end * 4) / page * page - first) / 4;
    if (end <= begin) begin = end = own.end;  // not one whole page
    add({own.begin, begin});
    add({end, own.end});
  }
  values_.resize(start);
}

layout::ColumnRange Borders::trimmed(std::int64_t row, layout::ColumnRange columns) const {
  const auto& left = pieces_[2 * row].columns;
  const auto& right = pieces_[2 * row + 1].columns;
  auto [begin, end] = columns;
  if (left.begin <= begin && begin < left.end) begin = std::min(left.end, end);
  if (right.begin < end && end <= right.end) end = std::max(right.begin, begin);
  return {begin, end};
}

/// Calls visit(index in the row's values from `column` on, index in values_, count) for each common
/// range.
template <class Visit>
void Borders::visit(std::int64_t row, std::int64_t column, std::int64_t size, Visit visit) const {
  for (const auto& [columns, start] : std::span(pieces_).subspan(2 * row, 2)) {
    const auto begin = std::max(columns.begin, column);
    const auto end = std::min(columns.end, column + size);
    if (begin < end) visit(begin - column, start + begin - columns.begin, end - begin);
  }
}

void Borders::keep(std::int64_t row, std::int64_t column, std::span<const float> values) {
  visit(row, column, std::ssize(values), [&](auto from, auto to, auto count) {
    std::ranges::copy(values.subspan(from, count), values_.begin() + to);
  });
}

void Borders::fill(std::int64_t row, std::int64_t column, std::span<float> values) const {
  visit(row, column, std::ssize(values), [&](auto to, auto from, auto count) {
    std::copy_n(values_.begin() + from, count, values.begin() + to);
  });
}

std::span<float> Borders::values(std::int64_t row) {
  const auto& left = pieces_[2 * row];
  const auto& right = pieces_[2 * row + 1];
  return std::span(values_).subspan(left.start, left.columns.size() + right.columns.size());
}

void Borders::write(AtomicFile& file) const {
  for (std::int64_t i = 0; i < std::ssize(pieces_); ++i) {
    const auto& [columns, start] = pieces_[i];
    if (columns.size() == 0) continue;
    file.write_at(shape_.offset(i / 2, columns.begin),
                  std::span(values_).subspan(start, columns.size()));
  }
}

}  // namespace dimred::pca
