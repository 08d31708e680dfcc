#include "pca/gram.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "checkpoints/npy.h"
#include "pca/dense.h"
#include "pca/lines.h"
#include "pca/ordered_sum.h"
#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred::pca {
namespace {

/// The parameter that a column belongs to, for a person; empty for rows that do not know theirs.
std::string parameter_of(const SourceInfo& info, std::int64_t column) {
  if (info.layout_json.empty()) return {};
  const layout::Layout layout = layout::layout_from_json(info.layout_json);
  const auto next = std::ranges::upper_bound(
      layout.entries, column, {}, [](const layout::Entry& entry) { return entry.file_offset; });
  return formatted(" (of parameter {})", std::prev(next)->name);
}

/// Throws for the first value of a tile [n x width] that is not finite as float32.
template <class Value>
void require_finite(const SnapshotSource& source,
                    const Tile<const Value>& tile,
                    std::int64_t begin) {
  for (std::int64_t i = 0; i < source.rows(); ++i) {
    for (std::int64_t c = 0; c < tile.width; ++c) {
      const Value value = tile.values[i * tile.stride + c];
      if (std::abs(value) <= largest_float32) continue;
      refuse(
          "[pca] needs finite snapshots, received {} in row {} ({}), column {}{}{}",
          value,
          i,
          source.info().names[i],
          begin + c,
          parameter_of(source.info(), begin + c),
          std::isfinite(value) ? "; the matrix is float32, and the largest float32 is 3.4e38" : "");
    }
  }
}

/// The diagonal of a sum of products, which a value that is not finite spoils for good.
bool finite_diagonal(std::span<const double> gram, std::int64_t rows) {
  for (std::size_t i = 0; i < gram.size(); i += rows + 1) {
    if (!std::isfinite(gram[i])) return false;
  }
  return true;
}

/// Adds one block's share of the Gram matrix. Value: of the tiles, float or double.
template <class Value>
class GramWork {
 public:
  explicit GramWork(const Pass& pass)
      : pass_(pass),
        rows_(pass.rows->rows()),
        stride_(pass.tile_width + column_slack),
        tile_(rows_ * stride_),
        panel_(padded(rows_, pass.kernels->row_unit) * panel_stride),
        mean_(panel_columns) {}

  void operator()(std::int64_t block, std::span<double> partial) {
    const auto [first, end] = pass_.block(block, columns_per_block);
    for (std::int64_t begin = first; begin < end; begin += pass_.tile_width) {
      const auto width = std::min(pass_.tile_width, end - begin);
      read_tile(*pass_.rows, begin, width, tile_.data(), stride_);
      for (std::int64_t c = 0; c < width; c += panel_columns) {
        add_panel(begin + c, tile_.data() + c, std::min(panel_columns, width - c), partial);
      }
    }
  }

 private:
  void add_panel(std::int64_t begin,
                 const Value* values,
                 std::int64_t width,
                 std::span<double> partial) {
    const Tile<const Value> tile{values, stride_, rows_, width};
    const auto padded_rows = padded(rows_, pass_.kernels->row_unit);
    const auto& kernels = pass_.kernels->template of<Value>();
    const bool wanted = !pass_.mean.empty();
    bool finite = true;
    if (pass_.centred || wanted || std::is_same_v<Value, double>) {
      finite = kernels.mean(tile, mean_.data());
    }
    if (wanted) std::copy_n(mean_.data(), width, pass_.mean.begin() + begin);
    if (pass_.centred) {
      kernels.centre(tile, mean_.data(), panel_.data());
    } else {
      kernels.widen(tile, panel_.data());
    }
    if (finite) pass_.kernels->gram(panel_.data(), padded_rows, width, partial.data());
    if (finite && (pass_.centred || finite_diagonal(partial, padded_rows))) return;
    require_finite(*pass_.rows, tile, begin);
    check(false, "a tile whose means or squares are not finite holds a value that is not finite");
  }

  const Pass& pass_;
  std::int64_t rows_;
  std::int64_t stride_;
  Lines<Value> tile_;
  Lines<double> panel_;
  Lines<double> mean_;  // of the panel's columns
};

}  // namespace

std::vector<double> gram_matrix(const Pass& pass) {
  const auto rows = padded(pass.rows->rows(), pass.kernels->row_unit);
  const auto gram = ordered_sum(pass.blocks(columns_per_block), pass.threads, rows * rows, [&pass] {
    return pass.rows->info().float64 ? BlockWork(GramWork<double>(pass))
                                     : BlockWork(GramWork<float>(pass));
  });
  return lower_of(gram, pass.rows->rows(), rows);
}

std::unique_ptr<AtomicFile> write_gram(const std::filesystem::path& npy,
                                       std::span<const double> lower,
                                       std::int64_t n) {
  std::vector<double> full(n * n);
  const double* from = lower.data();
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j, ++from) {
      full[i * n + j] = *from;
      full[j * n + i] = *from;
    }
  }
  const auto header = checkpoints::npy_header_bytes({n, n}, 8);
  auto file = std::make_unique<AtomicFile>(npy);
  file->append(header);
  file->append(full);
  file->sync();
  return file;
}

}  // namespace dimred::pca
