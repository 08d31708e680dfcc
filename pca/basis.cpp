#include "pca/basis.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>

#include "checkpoints/finite.h"
#include "checkpoints/npy.h"
#include "pca/components.h"
#include "pca/orthonormality.h"
#include "pca/shard_target.h"
#include "pca/sidecar.h"
#include "pca/source.h"
#include "support/agreement.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/parallel.h"

namespace dimred::pca {
namespace {

namespace fs = std::filesystem;

/// Blocks of all memory columns, by begin, neighbours of one block as one range.
std::vector<BasisBlock> memory_blocks(const layout::Layout& layout,
                                      const std::vector<layout::ColumnRange>& file_blocks) {
  if (file_blocks.size() < 2) return {{0, 0, layout.memory_size}};
  std::vector<BasisBlock> blocks;
  std::map<std::int64_t, std::int64_t> indices;  // of file blocks, in the order met
  for (const auto& entry : layout.entries) {
    if (entry.global_size == 0) continue;
    const auto after =
        std::ranges::upper_bound(file_blocks, entry.global_offset, {}, &layout::ColumnRange::begin);
    require_environment(
        after != file_blocks.begin() && entry.global_offset + entry.global_size <= (after - 1)->end,
        "[pca_mat] each block needs to hold whole parameters, but a block in pca_mat.json ends "
        "inside parameter {}",
        entry.name);
    const auto index =
        indices.emplace(after - file_blocks.begin(), std::ssize(indices)).first->second;
    if (!blocks.empty()) blocks.back().end = entry.memory_offset;
    if (!blocks.empty() && blocks.back().index == index) continue;
    blocks.push_back({index, entry.memory_offset, layout.memory_size});
  }
  blocks.back().end = layout.memory_size;
  return blocks;
}

/// The blocks of a shard's columns, from those of the file (sorted, of all columns; empty: one of
/// all), where `layout` has each parameter at its place in the file. Padding belongs to the
/// parameter before it. Throws std::runtime_error when a block cuts a parameter.
std::vector<BasisBlock> blocks_of(const layout::Layout& layout,
                                  const layout::Shard& shard,
                                  const std::vector<layout::ColumnRange>& file_blocks) {
  const auto all = memory_blocks(layout, file_blocks);
  std::vector<BasisBlock> own;
  std::int64_t start = 0;  // of the memory range within the shard
  for (const auto& range : shard.memory) {
    for (const auto& block : all) {
      const auto begin = std::max(block.begin, range.begin);
      const auto end = std::min(block.end, range.end);
      if (begin >= end) continue;
      const BasisBlock part{block.index, start + begin - range.begin, start + end - range.begin};
      if (!own.empty() && own.back().index == part.index) {
        own.back().end = part.end;
      } else {
        own.push_back(part);
      }
    }
    start += range.size();
  }
  return own;
}

/// The most that rounding to bfloat16 moves a product of two rows of norm 1: a block of a few
/// columns (a bias) comes near it.
constexpr double rounded_block = 0x1p-7 + 0x1p-16;

/// The parts that the steps of one load share.
struct Load {
  fs::path path;
  const SnapshotSource* matrix = nullptr;  // its rows are P's
  const ShardTarget* target = nullptr;
  Basis* basis = nullptr;
};

void check_sidecar(const fs::path& npy,
                   const checkpoints::NpyHeader& header,
                   const Sidecar& sidecar) {
  const auto digests =
      sidecar.digest_columns < 1 ? 0 : ceiling(sidecar.parameters, sidecar.digest_columns);
  std::int64_t covered = 0;
  for (const auto& block : sidecar.blocks) {
    const bool next = block.begin == covered && block.size() > 0;
    covered = next ? block.end : std::numeric_limits<std::int64_t>::max();
  }
  require_environment(
      (sidecar.blocks.empty() || covered == sidecar.parameters) &&
          sidecar.block_components.size() == sidecar.blocks.size(),
      "[pca_mat] '{}' is damaged: the blocks do not cover all columns of the matrix",
      sidecar_path(npy));
  const bool same = header.shape.size() == 2 && header.shape[0] == sidecar.components &&
                    header.shape[1] == sidecar.parameters && header.item_bytes == 4 &&
                    !header.fortran_order;
  require_environment(
      same && digests == std::ssize(sidecar.digests) && digests > 0 &&
          std::ssize(sidecar.singular_values) == sidecar.components,
      "[pca_mat] '{}' describes a float32 matrix of {} x {} in C order, but '{}' is another matrix",
      sidecar_path(npy),
      sidecar.components,
      sidecar.parameters,
      npy.filename());
}

/// The model's layout with file offsets as the matrix has its columns, which the sidecar says.
layout::Layout layout_of_columns(const fs::path& npy,
                                 const SnapshotSource& matrix,
                                 const layout::Layout& layout,
                                 const Sidecar& sidecar) {
  require(matrix.columns() == layout.global_size,
          "[pca_mat] needs one column for each of the {} parameters of the model, received a "
          "matrix of {} x {} in '{}'{}",
          layout.global_size,
          matrix.rows(),
          matrix.columns(),
          npy,
          sidecar.layout_json.empty()
              ? ""
              : "; " + layout::first_difference(layout, sidecar.layout_json));
  if (sidecar.layout_hash.empty() || sidecar.layout_hash == layout.hash) return layout;
  const auto moved = at_file_offsets(layout, layout::layout_from_json(sidecar.layout_json));
  if (moved) return *moved;
  const auto difference = layout::first_difference(layout, sidecar.layout_json);
  refuse("[pca_mat] '{}' belongs to another model: {}", npy, difference);
}

/// As write_components makes it: from the digests of the rows of `tile`.
std::string digest_of_tile(std::span<const float> tile, std::int64_t width) {
  std::vector<std::string> rows;
  for (; !tile.empty(); tile = tile.subspan(width)) {
    rows.push_back(digest(tile.first(width)));
  }
  return block_digest(rows);
}

/// Columns of all rows: verified, then put into memory order.
void load_tile(const Load& load, const layout::ColumnRange& columns) {
  const auto width = columns.size();
  auto& basis = *load.basis;
  const auto& header = basis.header;
  std::vector<float> tile(load.matrix->rows() * width);
  load.matrix->read_tile(columns.begin, width, tile.data(), width);
  require_environment(
      !header.is_known() ||
          digest_of_tile(tile, width) == header.digests[columns.begin / header.digest_columns],
      "[pca_mat] '{}' is damaged: columns {} to {} do not match the digest in {}",
      load.path,
      columns.begin,
      columns.end,
      sidecar_path(load.path).filename());
  for (std::int64_t j = 0; j < header.components; ++j) {
    const std::span row(tile.data() + j * width, width);
    const auto bad = checkpoints::first_not_finite(row);
    require_environment(!bad,
                        "[pca_mat] '{}' is damaged: the value in row {}, column {} is not finite",
                        load.path,
                        j,
                        columns.begin + bad.value_or(0));
    const auto scatter = [&](auto& values) {
      load.target->scatter(
          columns.begin, row, std::span(values).subspan(j * basis.columns, basis.columns));
    };
    if (basis.dtype == BasisDtype::float32) {
      scatter(basis.values);
    } else {
      scatter(basis.bfloats);
    }
  }
}

/// Tiles that cover the columns the shard needs: whole digest blocks where there are digests.
std::vector<layout::ColumnRange> tiles_of(const Load& load) {
  const auto& header = load.basis->header;
  const auto unit = header.is_known() ? header.digest_columns : columns_per_digest;
  std::vector<layout::ColumnRange> tiles;
  for (const auto& range : load.target->needed()) {
    for (std::int64_t block = range.begin / unit; block * unit < range.end; ++block) {
      layout::ColumnRange tile{block * unit, std::min((block + 1) * unit, header.parameters)};
      if (!header.is_known()) {
        tile = {std::max(tile.begin, range.begin), std::min(tile.end, range.end)};
      } else if (!tiles.empty() && tiles.back() == tile) {
        continue;
      }
      tiles.push_back(tile);
    }
  }
  return tiles;
}

/// The header of the first `components` rows alone; 0: of all.
void keep_components(Sidecar& header, std::int64_t components, const fs::path& npy) {
  require(components >= 0 && components <= header.components,
          "[pca_mat] '{}' has only {} components, received n_component = {}",
          npy,
          header.components,
          components);
  if (components == 0) return;
  header.components = components;
  for (auto* values :
       {&header.singular_values, &header.explained_variance_ratio, &header.random_walk_ratio})
    values->resize(std::min<std::size_t>(values->size(), components));
}

std::int64_t threads_of_a_load() { return std::min<std::int64_t>(2, available_threads()); }

/// All of a basis but its error.
Basis load_columns(const fs::path& npy,
                   const layout::Layout& layout,
                   const layout::Shard& shard,
                   const LoadOptions& options) {
  const auto matrix = npy_matrix(npy, "pca_mat");
  Basis basis{.header = read_basis_header(npy), .dtype = options.dtype};
  const auto columns = layout_of_columns(npy, *matrix, layout, basis.header);
  keep_components(basis.header, options.components, npy);
  const ShardTarget target(columns, shard);
  basis.columns = target.columns();
  basis.blocks = blocks_of(columns, shard, basis.header.blocks);
  const auto size = basis.header.components * basis.columns;
  if (basis.dtype == BasisDtype::float32) {
    basis.values.resize(size);
  } else {
    basis.bfloats.resize(size);
  }
  const Load load{npy, matrix.get(), &target, &basis};
  const auto tiles = tiles_of(load);
  in_parallel(
      std::ssize(tiles), threads_of_a_load(), [&](std::int64_t i) { load_tile(load, tiles[i]); });
  return basis;
}

}  // namespace

Sidecar read_basis_header(const fs::path& npy) {
  const auto header = checkpoints::read_npy_header(npy);
  require(header.shape.size() == 2,
          "[pca] needs a matrix of k components x M weights, received an array "
          "of {} dimensions in '{}'",
          header.shape.size(),
          npy);
  const auto sidecar = read_sidecar(npy);
  if (!sidecar) return {.parameters = header.shape[1], .components = header.shape[0]};
  check_sidecar(npy, header, *sidecar);
  return *sidecar;
}

layout::Layout layout_of(const Sidecar& header) {
  if (!header.layout_json.empty()) return layout::layout_from_json(header.layout_json);
  return layout::make_layout({{"columns", {header.parameters}}});
}

Basis load_basis(const fs::path& npy,
                 const layout::Layout& layout,
                 const layout::Shard& shard,
                 const LoadOptions& options,
                 Communicator& communicator) {
  const auto tolerance = options.tolerance;
  Basis basis;
  agree(communicator, [&] { basis = load_columns(npy, layout, shard, options); });
  basis.header.orthonormality_error = std::numeric_limits<double>::quiet_NaN();
  const bool complete =
      communicator.size() > 1 || ShardTarget(layout, shard).needed() ==
                                     std::vector<layout::ColumnRange>{{0, layout.global_size}};
  if (tolerance <= 0 || !complete) return basis;
  const auto measured = measure_orthonormality(basis, threads_of_a_load(), communicator);
  basis.header.orthonormality_error = measured.error;
  const bool small_blocks = !basis.header.blocks.empty() && basis.dtype == BasisDtype::bfloat16;
  const double limit = small_blocks ? std::max(tolerance, rounded_block) : tolerance;
  require(
      measured.error <= limit || measured.apparent_blocks < 2,
      "[pca_mat] the file {} is missing beside '{}'; restore this file, because only this file "
      "lists the blocks of the matrix (the matrix seems to have been made with --blocks layers and "
      "{} blocks, because its rows have norm sqrt({}))",
      sidecar_path(npy).filename(),
      npy,
      measured.apparent_blocks,
      measured.apparent_blocks);
  require(measured.error <= limit,
          "[pca_mat] needs orthonormal rows, |P P' - I| <= {}, received {} in '{}{}",
          limit,
          measured.error,
          npy,
          basis.dtype == BasisDtype::float32 ? "'" : "', rounded to bfloat16");
  return basis;
}

}  // namespace dimred::pca
