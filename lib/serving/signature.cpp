#include "serving/signature.h"

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

data::CropOptions crop_of(const Json& json) {
  data::CropOptions crop;
  if (json.is_null()) return crop;
  crop.cut = data::CropMode::centre;
  json.at("size").get_to(crop.size);
  json.at("centre_part").get_to(crop.centre_part);
  json.at("keeps_aspect").get_to(crop.keeps_aspect);
  return crop;
}

Signature parsed(const Json& json) {
  const auto format = json.at("format").get<int>();
  require_environment(format == format_version || format == unsealed_version,
                      "[export] needs format {} or {}, received {}",
                      unsealed_version,
                      format_version,
                      format);
  Signature signature;
  json.at("network").get_to(signature.network);
  if (const auto eps = json.find("batch_norm_eps"); eps != json.end())
    signature.batch_norm_eps = eps->get<double>();
  const auto& shape = json.at("input").at("shape");  // batch, channels, height, width
  signature.input = {shape.at(1), shape.at(2), shape.at(3)};
  json.at("output").at("shape").at(1).get_to(signature.outputs);
  json.at("classes").get_to(signature.classes);
  const auto& preparing = json.at("preprocessing");
  signature.preprocessing.crop = crop_of(preparing.at("crop"));
  preparing.at("mean").get_to(signature.preprocessing.mean);
  preparing.at("deviation").get_to(signature.preprocessing.deviation);
  preparing.at("standardise").get_to(signature.preprocessing.standardise);
  if (const auto change = preparing.find("change"); change != preparing.end()) {
    change->get_to(signature.preprocessing.change_name);
    signature.preprocessing.change = data::pixel_change(signature.preprocessing.change_name);
  }
  signature.source = json.at("source");
  const auto& classes = signature.classes;
  require_environment(signature.outputs >= 2 &&
                          (classes.empty() || std::cmp_equal(classes.size(), signature.outputs)),
                      "[export] needs at least 2 classes, and as many logits, received {} and {}",
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
