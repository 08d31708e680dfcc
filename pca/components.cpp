#include "pca/components.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <span>
#include <type_traits>

#include "pca/dense.h"
#include "pca/lines.h"
#include "pca/ordered_sum.h"
#include "support/digest.h"
#include "support/parallel.h"

namespace dimred::pca {
namespace {

/// The one of larger magnitude; where these are equal, the positive one.
float larger(float a, float b) {
  if (std::abs(a) == std::abs(b)) return std::max(a, b);
  return std::abs(a) > std::abs(b) ? a : b;
}

/// Writes one digest block of P and adds its share of P P'. Value: of the tiles, float or double.
template <class Value>
class ComponentsWork {
 public:
  /// found: what all threads find; `mutex` guards its extremes, which they fold.
  ComponentsWork(const Pass& pass,
                 const std::vector<double>& combinations,
                 const MatrixTarget& matrix,
                 Components& found,
                 std::mutex& mutex)
      : pass_(pass),
        combinations_(combinations),
        matrix_(matrix),
        found_(found),
        mutex_(mutex),
        rows_(pass.rows->rows()),
        tile_stride_(pass.tile_width + column_slack),
        stride_(pass.write_width + column_slack),
        gram_rows_(padded(pass.components, pass.kernels->row_unit)),
        tile_(rows_ * tile_stride_),
        result_(padded(pass.components, component_unit) * stride_),
        panel_(gram_rows_ * panel_stride),
        scratch_(rows_ * column_slack),
        mean_(pass.tile_width + column_slack) {}

  void operator()(std::int64_t block, std::span<double> partial) {
    guess_ = with_extremes([](auto& all) { return all; });
    extremes_ = guess_;
    std::vector<DigestStream> streams(guess_.size());
    const auto [first, end] = pass_.block(block, columns_per_digest);
    for (std::int64_t begin = first; begin < end; begin += pass_.write_width) {
      const auto width = std::min(pass_.write_width, end - begin);
      for (std::int64_t c = 0; c < width; c += pass_.tile_width) {
        combine_tile(begin + c, c, std::min(pass_.tile_width, width - c), partial);
      }
      write(begin, width, streams);
    }
    with_extremes([&](auto& all) { std::ranges::transform(all, extremes_, all.begin(), larger); });
    const auto piece = block * pass_.components;
    for (std::size_t j = 0; j < guess_.size(); ++j) {
      found_.negated[piece + j] = static_cast<char>(guess_[j] < 0);
      found_.digests[piece + j] = streams[j].hex();
    }
  }

 private:
  template <class Use>
  auto with_extremes(Use use) {
    const std::lock_guard lock(mutex_);
    return use(found_.extremes);
  }

  /// result[:, at : at + width] from the columns of W at `begin`.
  void combine_tile(std::int64_t begin,
                    std::int64_t at,
                    std::int64_t width,
                    std::span<double> partial) {
    const auto& kernels = pass_.kernels->template of<Value>();
    read_tile(*pass_.rows, begin, width, tile_.data(), tile_stride_);
    const Tile<const Value> tile{tile_.data(), tile_stride_, rows_, width};
    const auto components = padded(pass_.components, component_unit);
    kernels.combine({combinations_.data(), components, rows_, components},
                    tile,
                    means(begin, tile),
                    {result_.data() + at, stride_, components, width},
                    scratch_.data());
    for (std::int64_t c = at; c < at + width; c += panel_columns) {
      const auto part = std::min(panel_columns, at + width - c);
      pass_.kernels->float32.widen({result_.data() + c, stride_, pass_.components, part},
                                   panel_.data());
      pass_.kernels->gram(panel_.data(), gram_rows_, part, partial.data());
    }
  }

  /// The means of the columns of W from `begin` on where they are to be subtracted, else nullptr.
  /// A combination's factors sum to zero up to rounding, which shows where means are beyond 1e8 of
  /// the spread: in float64, and in float32 where a large column is constant, as a mask is.
  const double* means(std::int64_t begin, const Tile<const Value>& tile) {
    constexpr bool single = std::is_same_v<Value, float>;
    const auto is_small = [](Value value) { return std::abs(value) < 1e6F; };
    const std::span first(tile.values, tile.width);  // row
    if (!pass_.centred || (single && std::ranges::all_of(first, is_small))) return nullptr;
    if (pass_.mean.empty()) {
      pass_.kernels->template of<Value>().mean(tile, mean_.data());
    } else {
      std::copy_n(pass_.mean.begin() + begin, tile.width, mean_.data());
    }
    // A column has the same bits, whatever columns lie beside it.
    for (std::size_t c = 0; single && c < first.size(); ++c)
      if (is_small(first[c])) mean_[c] = 0;
    return mean_.data();
  }

  /// The result's columns, of W from `begin` on, each row with the sign that is likely its own.
  void write(std::int64_t begin, std::int64_t width, std::vector<DigestStream>& streams) {
    for (std::size_t j = 0; j < guess_.size(); ++j) {
      const std::span row(result_.data() + j * stride_, width);
      float low = 0, high = 0;
      pass_.kernels->extremes(row.data(), width, &low, &high);
      extremes_[j] = larger(extremes_[j], larger(low, high));
      if (guess_[j] < 0) {
        for (float& value : row) value = -value;
      }
      streams[j].update(row);
      matrix_.write(j, begin, row);
    }
  }

  const Pass& pass_;
  const std::vector<double>& combinations_;
  const MatrixTarget& matrix_;
  Components& found_;
  std::mutex& mutex_;
  std::int64_t rows_;
  std::int64_t tile_stride_;
  std::int64_t stride_;
  std::int64_t gram_rows_;
  Lines<Value> tile_;
  Lines<float> result_;
  Lines<double> panel_;
  Lines<double> scratch_;
  Lines<double> mean_;           // see means()
  std::vector<float> guess_;     // the extremes when the block was begun
  std::vector<float> extremes_;  // with the block
};

/// The digest of each own block; row_digest(block, row, first column, buffer [columns]) gives those
/// of its rows.
template <class RowDigest>
std::vector<std::string> block_digests(const Pass& pass, const RowDigest& row_digest) {
  std::vector<std::string> digests(pass.blocks(columns_per_digest));
  in_parallel(std::ssize(digests), pass.threads, [&](std::int64_t block) {
    const auto range = pass.block(block, columns_per_digest);
    std::vector<float> buffer(range.size());
    std::vector<std::string> rows;
    for (std::int64_t j = 0; j < pass.components; ++j) {
      rows.push_back(row_digest(block, j, range.begin, std::span(buffer)));
    }
    digests[block] = block_digest(rows);
  });
  return digests;
}

/// Columns from `column` on that the rank reads and writes in the file.
layout::ColumnRange in_file(const MatrixTarget& matrix,
                            std::int64_t row,
                            std::int64_t column,
                            std::int64_t size) {
  const layout::ColumnRange all{column, column + size};
  return matrix.borders == nullptr ? all : matrix.borders->trimmed(row, all);
}

float* memory_of(const MatrixTarget& matrix, std::int64_t row, std::int64_t column) {
  return matrix.memory + row * matrix.shape.columns + column;
}

}  // namespace

void MatrixTarget::read(std::int64_t row, std::int64_t column, std::span<float> values) const {
  if (memory != nullptr) {
    std::copy_n(memory_of(*this, row, column), values.size(), values.begin());
    return;
  }
  const auto range = in_file(*this, row, column, std::ssize(values));
  read_exactly(file->descriptor(),
               shape.offset(row, range.begin),
               std::as_writable_bytes(values.subspan(range.begin - column, range.size())),
               file->temporary_path());
  if (borders != nullptr) borders->fill(row, column, values);
}

void MatrixTarget::write(std::int64_t row,
                         std::int64_t column,
                         std::span<const float> values) const {
  if (memory != nullptr) {
    std::ranges::copy(values, memory_of(*this, row, column));
    return;
  }
  const auto range = in_file(*this, row, column, std::ssize(values));
  file->write_at(shape.offset(row, range.begin),
                 values.subspan(range.begin - column, range.size()));
  if (borders != nullptr) borders->keep(row, column, values);
}

std::string block_digest(std::span<const std::string> rows) {
  DigestStream stream;
  for (const auto& row : rows) stream.update(row);
  return stream.hex();
}

Components write_components(const Pass& pass,
                            const std::vector<double>& combinations,
                            const MatrixTarget& matrix) {
  const auto blocks = pass.blocks(columns_per_digest);
  const auto rows = padded(pass.components, pass.kernels->row_unit);
  Components found{.extremes = std::vector<float>(pass.components),
                   .negated = std::vector<char>(blocks * pass.components),
                   .digests = std::vector<std::string>(blocks * pass.components)};
  std::mutex mutex;
  const auto gram = ordered_sum(blocks, pass.threads, rows * rows, [&]() -> BlockWork {
    if (pass.rows->info().float64)
      return ComponentsWork<double>(pass, combinations, matrix, found, mutex);
    return ComponentsWork<float>(pass, combinations, matrix, found, mutex);
  });
  found.gram = lower_of(gram, pass.components, rows);
  return found;
}

std::vector<bool> rows_to_flip(const std::vector<float>& extremes, Communicator& communicator) {
  // Each rank's extremes at their own place, zeros elsewhere: a sum brings them together exactly.
  const auto k = std::ssize(extremes);
  std::vector<double> all(k * communicator.size());
  std::ranges::copy(extremes, all.begin() + communicator.rank() * k);
  communicator.sum(all);
  std::vector<bool> flip(k);
  for (std::int64_t j = 0; j < k; ++j) {
    float extreme = 0;
    for (std::int64_t i = j; i < std::ssize(all); i += k)
      extreme = larger(extreme, static_cast<float>(all[i]));
    flip[j] = extreme < 0;
  }
  return flip;
}

std::vector<std::string> fix_signs(const Pass& pass,
                                   const std::vector<bool>& flip,
                                   const Components& found,
                                   const MatrixTarget& matrix) {
  return block_digests(
      pass, [&](std::int64_t block, std::int64_t row, std::int64_t begin, std::span<float> values) {
        const auto piece = block * pass.components + row;
        if ((found.negated[piece] != 0) == flip[row]) return found.digests[piece];
        matrix.read(row, begin, values);
        for (float& value : values) value = -value;
        matrix.write(row, begin, values);
        return digest(values);
      });
}

std::vector<std::string> digests_of_file(const Pass& pass, const MatrixTarget& matrix) {
  return block_digests(
      pass, [&](std::int64_t, std::int64_t row, std::int64_t begin, std::span<float> values) {
        matrix.read(row, begin, values);
        return digest(values);
      });
}

}  // namespace dimred::pca
