#include "pca/sidecar.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/earlier_files.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/named.h"

namespace dimred::pca {
namespace {

namespace fs = std::filesystem;

using OrderedJson = nlohmann::ordered_json;

constexpr const char* format = "dimred-pca 1";
constexpr std::string_view start = "{\n \"format\": \"dimred-pca 1\",";  // of every sidecar's text

OrderedJson layout_table(const std::string& text) {
  return parse_ordered_json(text, "[pca] the text of a layout is damaged", table_json_limits);
}

std::string sidecar_text(const OrderedJson& json) {
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

constexpr std::string_view checksum_key = "\"checksum\"";

/// Digest of the text in front of its checksum, which stands last.
std::string checksum_of(std::string_view text) {
  return digest(text.substr(0, text.rfind(checksum_key)));
}

/// The fields that files from before there were kinds and blocks lack.
void read_kind(const OrderedJson& json, Sidecar& sidecar) {
  if (json.contains("kind")) {
    const auto kind = named_value(kind_names(), json.at("kind").get<std::string>());
    require_environment(kind.has_value(), "[pca] the kind {} is unknown", json.at("kind").dump());
    sidecar.kind = *kind;
  }
  if (json.contains("seed")) sidecar.seed = json.at("seed").get<std::uint64_t>();
  if (!json.contains("blocks")) return;
  for (const auto& block : json.at("blocks")) {
    sidecar.blocks.push_back({block.at(0).get<std::int64_t>(), block.at(1).get<std::int64_t>()});
  }
  json.at("block_components").get_to(sidecar.block_components);
}

void write_kind(const Sidecar& sidecar, OrderedJson& json) {
  json["kind"] = name_of(sidecar.kind);
  if (sidecar.seed) json["seed"] = *sidecar.seed;
  if (sidecar.blocks.empty()) return;
  auto blocks = OrderedJson::array();
  for (const auto& block : sidecar.blocks) {
    blocks.push_back({block.begin, block.end});
  }
  json["blocks"] = std::move(blocks);
  json["block_components"] = sidecar.block_components;
}

/// visit(name, field) for each that the file has under a name of its own, in its order.
template <class Fields, class Visit>
void for_each_field(Fields& sidecar, Visit visit) {
  visit("snapshots", sidecar.snapshots);
  visit("parameters", sidecar.parameters);
  visit("components", sidecar.components);
  visit("singular_values", sidecar.singular_values);
  visit("explained_variance_ratio", sidecar.explained_variance_ratio);
  visit("random_walk_ratio", sidecar.random_walk_ratio);
  visit("orthonormality_error", sidecar.orthonormality_error);
  visit("reorthonormalized", sidecar.reorthonormalized);
  visit("snapshot_files", sidecar.snapshot_names);
  visit("layout_hash", sidecar.layout_hash);
}

Sidecar from_json(const OrderedJson& json) {
  Sidecar sidecar;
  read_kind(json, sidecar);
  for_each_field(sidecar, [&](const char* name, auto& field) { json.at(name).get_to(field); });
  if (!json.at("layout").is_null()) sidecar.layout_json = json.at("layout").dump();
  json.at("digests").at("columns").get_to(sidecar.digest_columns);
  json.at("digests").at("blocks").get_to(sidecar.digests);
  json.at("options").at("threads").get_to(sidecar.threads);
  json.at("options").at("tile_bytes").get_to(sidecar.tile_bytes);
  json.at("options").at("kernels").get_to(sidecar.kernels);
  return sidecar;
}

std::string text_of_file(const fs::path& path) { return InputFile(path).text(JsonLimits{}.bytes); }

/// Throws std::invalid_argument unless the text starts as our sidecars do.
void require_ours(std::string_view text, const fs::path& path) {
  require(text.starts_with(start),
          "[pca] dimred writes its description of the matrix to '{}', but this file exists and "
          "does not have the format '{}'; move this file away",
          path,
          format);
}

OrderedJson read_verified(const fs::path& path) {
  const auto text = text_of_file(path);
  require_ours(text, path);
  auto json = parse_ordered_json(text, formatted("[pca] '{}' is damaged", path), table_json_limits);
  require_environment(
      text.ends_with("\n}\n"), "[pca] '{}' is damaged: the end of the file is missing", path);
  require_environment(json.contains("checksum") && json["checksum"] == checksum_of(text),
                      "[pca] '{}' is damaged or edited: the checksum does not match the text",
                      path);
  return json;
}

}  // namespace

fs::path sidecar_path(const fs::path& npy) { return fs::path(npy).replace_extension(".json"); }

std::vector<fs::path> pair_of(const fs::path& npy) { return {npy, sidecar_path(npy)}; }

std::string to_json(const Sidecar& sidecar) {
  OrderedJson json{{"format", format}};
  for_each_field(sidecar, [&](const char* name, const auto& field) { json[name] = field; });
  json["layout"] = sidecar.layout_json.empty() ? OrderedJson() : layout_table(sidecar.layout_json);
  json["digests"] = {{"algorithm", "XXH3-128 of the hex XXH3-128 of each row"},
                     {"columns", sidecar.digest_columns},
                     {"blocks", sidecar.digests}};
  json["options"] = {{"components", sidecar.components},
                     {"threads", sidecar.threads},
                     {"tile_bytes", sidecar.tile_bytes},
                     {"kernels", sidecar.kernels}};
  write_kind(sidecar, json);
  json["checksum"] = std::string(32, '0');
  auto text = sidecar_text(json);
  check(text.starts_with(start), "a sidecar's text starts with its format");
  return text.replace(text.rfind(std::string(32, '0')), 32, checksum_of(text));
}

void require_replaceable(const fs::path& npy) {
  const auto path = sidecar_path(npy);
  const EarlierFiles names(pair_of(npy));  // none is too long
  if (fs::exists(path)) require_ours(text_of_file(path), path);
}

std::optional<Sidecar> read_sidecar(const fs::path& npy) {
  const auto path = sidecar_path(npy);
  if (!fs::exists(path)) return std::nullopt;
  const auto json = read_verified(path);
  try {
    return from_json(json);
  } catch (const OrderedJson::exception& error) {
    fail_environment("[pca] '{}' is damaged: {}", path, error.what());
  }
}

}  // namespace dimred::pca
