#include "serving/signature.h"

#include <string_view>
#include <utility>

#include "checkpoints/sealed_json.h"
#include "data/presets.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/version.h"

namespace dimred::serving {
namespace {

using Json = nlohmann::ordered_json;

constexpr int format_version = 2;
constexpr int unsealed_version = 1;  // earlier exports have no digests
constexpr auto torchscript = "torchscript";

Json crop_json(const data::CropOptions& crop) {
  if (crop.cut == data::CropMode::none) return nullptr;
  return {
      {"size", crop.size}, {"centre_part", crop.centre_part}, {"keeps_aspect", crop.keeps_aspect}};
}

/// The value of a key; the error says which one is missing.
const Json& member(const Json& json, std::string_view key) {
  require_environment(json.is_object() && json.contains(key), "the key \"{}\" is missing", key);
  return json.at(key);
}

/// The value of a key at this place of its list.
const Json& member_at(const Json& json, std::string_view key, std::size_t place) {
  const auto& list = member(json, key);
  require_environment(
      list.is_array() && place < list.size(), "the list \"{}\" has no entry {}", key, place + 1);
  return list.at(place);
}

template <class Value>
void get(const Json& json, std::string_view key, Value& value) {
  try {
    json.get_to(value);
  } catch (const Json::exception&) {
    fail_environment("the value of \"{}\" has the wrong type {}", key, json.type_name());
  }
}

template <class Value>
void read(const Json& json, std::string_view key, Value& value) {
  get(member(json, key), key, value);
}

data::CropOptions crop_of(const Json& json) {
  data::CropOptions crop;
  if (json.is_null()) return crop;
  crop.cut = data::CropMode::centre;
  read(json, "size", crop.size);
  read(json, "centre_part", crop.centre_part);
  read(json, "keeps_aspect", crop.keeps_aspect);
  return crop;
}

Signature parsed(const Json& json) {
  int format = 0;
  read(json, "format", format);
  require_environment(format == format_version || format == unsealed_version,
                      "[export] needs format {} or {}, received {}",
                      unsealed_version,
                      format_version,
                      format);
  Signature signature;
  read(json, "network", signature.network);
  if (json.contains("batch_norm_eps"))
    read(json, "batch_norm_eps", signature.batch_norm_eps.emplace());
  auto& input = signature.input;
  std::size_t axis = 0;  // batch, channels, height, width
  for (auto* size : {&input.channels, &input.height, &input.width})
    get(member_at(member(json, "input"), "shape", ++axis), "shape", *size);
  get(member_at(member(json, "output"), "shape", 1), "shape", signature.outputs);
  read(json, "classes", signature.classes);
  const auto& preparing = member(json, "preprocessing");
  signature.preprocessing.crop = crop_of(member(preparing, "crop"));
  read(preparing, "mean", signature.preprocessing.mean);
  read(preparing, "deviation", signature.preprocessing.deviation);
  read(preparing, "standardise", signature.preprocessing.standardise);
  if (preparing.contains("change")) {
    read(preparing, "change", signature.preprocessing.change_name);
    signature.preprocessing.change = data::pixel_change(signature.preprocessing.change_name);
  }
  signature.source = member(json, "source");
  const auto& classes = signature.classes;
  require_environment(signature.outputs >= 2 &&
                          (classes.empty() || std::cmp_equal(classes.size(), signature.outputs)),
                      "[export] needs at least 2 classes and one logit for each class, received {} "
                      "classes and {} logits",
                      classes.size(),
                      signature.outputs);
  data::validate(signature.preprocessing, signature.input);
  return signature;
}

}  // namespace

bool Signature::is_module() const { return network == torchscript; }

std::string Signature::output_name() const { return classes.empty() ? "embeddings" : "logits"; }

Json to_json(const Signature& signature) {
  const auto& [channels, height, width] = signature.input;
  const auto& preparing = signature.preprocessing;
  Json json{{"format", format_version}};
  json["written_by"] = formatted("dimred {} ({})", version(), revision());
  json["network"] = signature.network;
  if (signature.batch_norm_eps) json["batch_norm_eps"] = *signature.batch_norm_eps;
  json["input"] = {{"name", "images"},
                   {"shape", {nullptr, channels, height, width}},
                   {"layout", "NCHW"},
                   {"type", "float32"}};
  json["output"] = {{"name", signature.output_name()},
                    {"shape", {nullptr, signature.outputs}},
                    {"type", "float32"}};
  json["classes"] = signature.classes;
  json["preprocessing"] = {{"colours", channels == 1 ? "grey" : "RGB"},
                           {"crop", crop_json(preparing.crop)},
                           {"value", "(pixel / 255 - mean) / deviation"},
                           {"mean", preparing.mean},
                           {"deviation", preparing.deviation},
                           {"standardise", preparing.standardise}};
  if (preparing.change) json["preprocessing"]["change"] = preparing.change_name;
  json["source"] = signature.source;
  return json;
}

Signature read_signature(const std::filesystem::path& folder) {
  const auto file = folder / signature_file;
  const auto text = InputFile(file).text(JsonLimits{}.bytes);
  const auto damaged = formatted("[export] {} is damaged", file);
  const auto json = parse_ordered_json(text, damaged);
  Signature signature;
  try {
    signature = parsed(json);
  } catch (const std::exception& error) {
    fail_environment("{}: {}", damaged, error.what());
  }
  checkpoints::require_seal(json, file);
  return signature;
}

}  // namespace dimred::serving
