#include "commands/inspect_matrix.h"

#include <algorithm>
#include <vector>

#include "checkpoints/npy.h"
#include "commands/text_table.h"
#include "pca/basis.h"
#include "pca/kinds.h"
#include "support/formatted.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

std::string explained_text(const std::vector<double>& ratios) {
  constexpr std::size_t shown = 5;
  std::string text;
  double sum = 0;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    sum += ratios[i];
    if (i < shown) text += decimal_text(100 * ratios[i], 2) + " ";
  }
  return formatted(
      "{}{}% (sum {} %)", text, ratios.size() > shown ? "... " : "", decimal_text(100 * sum, 2));
}

/// max |P P' - I|; reading all of P also verifies its digests. Costs the memory of P.
double orthonormality_error(const fs::path& file, const pca::Sidecar& sidecar) {
  constexpr double any = 1e30;
  const auto layout = pca::layout_of(sidecar);
  const auto all = layout::shard_of(layout, 0, 1);
  return pca::load_basis(file, layout, all, {.tolerance = any}).header.orthonormality_error;
}

std::string blocks_text(const pca::Sidecar& sidecar) {
  if (sidecar.blocks.empty()) return "1, whole";
  const auto& rows = sidecar.block_components;
  const auto fewer =
      std::ranges::count_if(rows, [&](std::int64_t count) { return count < sidecar.components; });
  return formatted("{}, block-diagonal by layers; {} blocks have fewer than {} non-zero rows",
                   rows.size(),
                   fewer,
                   sidecar.components);
}

std::string spectrum_rows(const pca::Sidecar& sidecar) {
  if (sidecar.kind == pca::Kind::random) return {};
  std::string text;
  const auto& values = sidecar.singular_values;
  if (!values.empty())
    text = text_row(
        "singular values",
        formatted("{} ... {}", decimal_text(values.front(), 4), decimal_text(values.back(), 4)));
  const bool centred = sidecar.kind != pca::Kind::span;
  return text + text_row(centred ? "explained variance" : "share of squared norm",
                         explained_text(sidecar.explained_variance_ratio));
}

}  // namespace

std::string inspect_npy(const fs::path& file) {
  const auto header = checkpoints::read_npy_header(file);
  auto text = text_rows({{"npy", file.string()},
                         {"shape", shape_text(header.shape)},
                         {"values", header.item_bytes == 4 ? "float32" : "float64"},
                         {"order", header.fortran_order ? "Fortran" : "C"}});
  if (header.shape.size() != 2) return text;
  const auto sidecar = pca::read_basis_header(file);
  if (!sidecar.is_known())
    return text + text_row("sidecar", "none, so the model of the matrix is unknown");
  const auto seed = sidecar.seed ? formatted(", seed {}", *sidecar.seed) : "";
  return text +
         text_rows({{"whole", "yes, digests verified"},
                    {"kind", pca::name_of(sidecar.kind) + seed},
                    {"components", count_text(sidecar.components)},
                    {"blocks", blocks_text(sidecar)},
                    {"orthonormal to", number_text(orthonormality_error(file, sidecar))},
                    {"layout", sidecar.layout_hash.empty() ? "unknown" : sidecar.layout_hash}}) +
         spectrum_rows(sidecar);
}

}  // namespace dimred::commands
