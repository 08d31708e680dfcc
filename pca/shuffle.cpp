#include "pca/shuffle.h"

#include <algorithm>
#include <limits>

#include "support/agreement.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/random.h"

namespace dimred::pca {
namespace {

constexpr std::int64_t columns_at_a_time = 1 << 16;  // columns that one thread takes at a time

/// One rank's part of the work.
class Shuffle {
 public:
  explicit Shuffle(const Fit& fit) : pass_(fit.pass), layers_(fit.layers), matrix_(fit.matrix) {}

  void draw(std::uint64_t seed) {
    sources_.resize(pass_.own.size());
    row_.resize(sources_.size());
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const auto layer = layers_[i];
      check(layer.size() <= std::numeric_limits<std::uint32_t>::max(), "a layer of 2^32 columns");
      for_own_chunks(layer, [&](std::int64_t column, std::size_t own) {
        sources_[own] =
            permuted(column - layer.begin, layer.size(), seed, RandomPurpose::shuffle, i);
      });
    }
  }

  void gather(std::int64_t row) {
    for (const auto& layer : layers_) {
      if (own_columns_of(layer).size() == 0) continue;
      layer_.resize(layer.size());
      matrix_.read(row, layer.begin, layer_);
      for_own_chunks(layer,
                     [&](std::int64_t, std::size_t own) { row_[own] = layer_[sources_[own]]; });
    }
  }

  void write(std::int64_t row) { matrix_.write(row, pass_.own.begin, row_); }

 private:
  layout::ColumnRange own_columns_of(const layout::ColumnRange& layer) const {
    const auto begin = std::max(layer.begin, pass_.own.begin);
    return {begin, std::max(begin, std::min(layer.end, pass_.own.end))};
  }

  /// visit(column, its index among the own ones) for the own columns of a layer, by all threads.
  template <class Visit>
  void for_own_chunks(const layout::ColumnRange& layer, Visit visit) const {
    const auto part = own_columns_of(layer);
    in_parallel(ceiling(part.size(), columns_at_a_time), pass_.threads, [&](std::int64_t chunk) {
      const auto begin = part.begin + chunk * columns_at_a_time;
      const auto end = std::min(begin + columns_at_a_time, part.end);
      for (std::int64_t column = begin; column < end; ++column) {
        visit(column, column - pass_.own.begin);
      }
    });
  }

  const Pass& pass_;
  const std::vector<layout::ColumnRange>& layers_;
  const MatrixTarget& matrix_;
  std::vector<std::uint32_t> sources_;  // of each own column: which of its layer comes there
  std::vector<float> row_;              // own columns of one row
  std::vector<float> layer_;            // one row of a layer
};

}  // namespace

void shuffle_columns(const Fit& fit) {
  Shuffle shuffle(fit);
  agree(*fit.communicator, [&] { shuffle.draw(fit.options.seed); });
  for (std::int64_t row = 0; row <= fit.pass.components; ++row) {
    // No row is written before all ranks have read it.
    agree(*fit.communicator, [&] {
      if (row > 0) shuffle.write(row - 1);
      if (row < fit.pass.components) shuffle.gather(row);
    });
  }
}

}  // namespace dimred::pca
