#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "checkpoints/npy.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/step_names.h"
#include "checkpoints/weights_file.h"
#include "commands/inspect.h"
#include "pca/basis.h"
#include "pca/kinds.h"
#include "support/errors.h"
#include "support/human.h"
#include "support/json.h"
#include "support/option_values.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

/// The table that a snapshot carries, one parameter a line.
std::string layout_rows(const fs::path& file, const std::string& layout_json) {
  std::string text;
  const auto json = parse_json(layout_json, formatted("[inspect] the layout of {}", file.string()));
  for (const auto& parameter : json.at("parameters")) {
    const auto shape = parameter.at("shape").get<std::vector<std::int64_t>>();
    text += text_row(formatted("  {}", parameter.at("name").get<std::string>()), shape_text(shape));
  }
  return text;
}

std::string inspect_snapshot(const fs::path& file) {
  const auto info = checkpoints::read_snapshot_info(file);
  std::string text = text_row("snapshot", file.string());
  text += text_row("whole", "yes, digest verified");
  text += text_row("epoch", count_text(info.epoch));
  text += text_row("step", count_text(info.step));
  text += text_row("train loss", loss_text(info.train_loss));
  text += text_row("validation loss", loss_text(info.validation_loss));
  text += text_row("weights", count_text(info.parameters) + " float32");
  text += text_row(
      "buffers",
      formatted(
          "{} float32, {} int64", count_text(info.buffer_count), count_text(info.counter_count)));
  text += text_row("layout", info.layout_hash);
  const auto run = nlohmann::json::parse(info.run_json, nullptr, /*allow_exceptions=*/false);
  if (run.is_object() && run.contains("config"))
    text += config_rows(run.at("config").get<std::string>());
  return text + layout_rows(file, info.layout_json);
}

std::string inspect_safetensors(const fs::path& file) {
  const auto tensors = checkpoints::read_safetensors_header(file);
  std::string rows;
  std::int64_t elements = 0;
  for (const auto& tensor : tensors) {
    elements += tensor.elements;
    rows += text_row(formatted("  {}", tensor.name),
                     formatted("{}  {}", tensor.dtype, shape_text(tensor.shape)));
  }
  std::string text = text_row("safetensors", file.string());
  text += text_row("whole", "yes, header and length verified (the format has no digest)");
  text += text_row("tensors", count_text(std::ssize(tensors)));
  return text + text_row("elements", count_text(elements)) + rows;
}

/// Another program's weights, all of them read.
std::string inspect_weights(const fs::path& file) {
  const auto weights = checkpoints::read_weights(file);
  std::string rows;
  std::int64_t elements = 0;
  for (const auto& tensor : weights.tensors) {
    elements += std::ssize(tensor.values) + std::ssize(tensor.integers);
    rows += text_row(
        formatted("  {}", tensor.name),
        formatted("{}{}", tensor.floating ? "float  " : "integer  ", shape_text(tensor.shape)));
  }
  return text_row(weights.format, file.string()) +
         text_row("tensors", count_text(std::ssize(weights.tensors))) +
         text_row("elements", count_text(elements)) + rows;
}

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
double orthonormality_error(const fs::path& file, const pca::BasisFile& basis) {
  constexpr double any = 1e30;
  const auto all = layout::shard_of(basis.layout, 0, 1);
  return pca::load_basis(file, basis.layout, all, 0, any).orthonormality_error;
}

std::string blocks_text(const pca::BasisFile& basis) {
  if (basis.blocks.empty()) return "1, whole";
  const auto& rows = basis.block_components;
  const auto fewer =
      std::ranges::count_if(rows, [&](std::int64_t count) { return count < basis.components; });
  return formatted("{}, block-diagonal by layers, {} with fewer than {} rows that are not zero",
                   rows.size(),
                   fewer,
                   basis.components);
}

std::string inspect_npy(const fs::path& file) {
  const auto header = checkpoints::read_npy_header(file);
  std::string text = text_row("npy", file.string());
  text += text_row("shape", shape_text(header.shape));
  text += text_row("values", header.item_bytes == 4 ? "float32" : "float64");
  text += text_row("order", header.fortran_order ? "Fortran" : "C");
  if (header.shape.size() != 2) return text;
  const auto basis = pca::read_basis_header(file);
  if (!basis.sidecar) {
    return text + text_row("sidecar", "none: which model it belongs to is not known");
  }
  text += text_row("whole", "yes, digests verified");
  text +=
      text_row("kind", basis.seed ? formatted("{}, seed {}", basis.kind, *basis.seed) : basis.kind);
  text += text_row("components", count_text(basis.components));
  text += text_row("blocks", blocks_text(basis));
  text += text_row("orthonormal to", number_text(orthonormality_error(file, basis)));
  text += text_row("layout", basis.layout_hash.empty() ? "unknown" : basis.layout_hash);
  if (basis.kind == pca::name_of(pca::Kind::random)) return text;
  if (!basis.singular_values.empty()) {
    const auto& values = basis.singular_values;
    text += text_row(
        "singular values",
        formatted("{} ... {}", decimal_text(values.front(), 4), decimal_text(values.back(), 4)));
  }
  const bool centred = basis.kind != pca::name_of(pca::Kind::span);
  return text + text_row(centred ? "explained variance" : "of squared norm",
                         explained_text(basis.explained_variance_ratio));
}

}  // namespace

std::string inspect_file(const fs::path& file) {
  if (checkpoints::is_snapshot(file)) return inspect_snapshot(file);
  // A name that only our snapshots have: its head was overwritten, or it is empty.
  require_environment(!checkpoints::kSnapshotNames.matches(file.filename().string()),
                      "[inspect] {} is damaged: it does not start as a snapshot does",
                      file.string());
  if (file.extension() == ".npy") return inspect_npy(file);
  if (file.extension() == ".safetensors") return inspect_safetensors(file);
  for (const auto* name : {".pt", ".pth", ".ckpt", ".bin"})
    if (file.extension() == name) return inspect_weights(file);
  throw std::invalid_argument(
      formatted("[inspect] needs a snapshot (.h5), .npy, .safetensors, .pt, .ckpt, a state, a run "
                "folder or a folder of these, received {}",
                file.string()));
}

}  // namespace dimred::commands
