#include "engine/input/data_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/printable.h"
#include "support/utf8.h"

namespace dimred::engine {
namespace {

DataPart described_part(const data::Dataset& dataset) {
  return {dataset.description(), dataset.size(), dataset.digest()};
}

/// A set that is not there is null.
nlohmann::json part_json(const std::optional<DataPart>& part) {
  if (!part) return nullptr;
  nlohmann::json json{{"description", utf8_text(part->description)},
                      {"samples", part->samples},
                      {"digest", utf8_text(part->digest)}};
  if (!part->pixels.empty()) json["pixels"] = {{"of", part->pixels_of}, {"digest", part->pixels}};
  return json;
}

/// Whether both know the pixels of as many samples of one shape, and they differ.
bool has_other_pixels(const nlohmann::json& before, const nlohmann::json& after) {
  if (!before.contains("pixels") || !after.contains("pixels")) return false;
  return before["pixels"].at("of") == after["pixels"].at("of") &&
         before["pixels"] != after["pixels"];
}

std::string described(const nlohmann::json& part) {
  return part.is_null() ? "none" : part.at("description").get<std::string>();
}

std::vector<std::string> class_names_of(const DataRecord& record) {
  auto names = record.class_names;
  for (auto& name : names) name = utf8_text(name);
  return names;
}

bool is_known(const nlohmann::json& saved, const DataRecord& now) {
  return !saved.is_null() && !now.class_names.empty();
}

/// How a set has other samples than before; empty when it has not.
std::string difference_of(const char* set,
                          const nlohmann::json& before,
                          const std::optional<DataPart>& part) {
  const auto after = part_json(part);
  const bool same = before.is_null() || after.is_null()
                        ? before == after
                        : before.at("samples") == after.at("samples") &&
                              before.at("digest") == after.at("digest");
  if (same && has_other_pixels(before, after))
    return formatted(
        "the images of the {} set have changed, but not their names: the digest of all pixels "
        "was {} and is now {} (datasets_use_caching = false does not compare pixels)",
        set,
        before["pixels"].at("digest").get<std::string>(),
        part->pixels);
  if (same) return "";
  return formatted("the {} set has other samples: the set was {} and is now {}",
                   set,
                   described(before),
                   described(after));
}

}  // namespace

DataRecord record_of(const data::Dataset& train, const data::Dataset* test) {
  return {described_part(train),
          test == nullptr ? std::nullopt : std::optional(described_part(*test)),
          train.class_names()};
}

void note_pixels(const data::Dataset& used, DataPart& part) {
  part.pixels = used.pixel_digest();
  const auto shape = used.shape();
  if (part.pixels.empty() || !shape) return;
  part.pixels_of =
      formatted("{} x {} x {} x {}", used.size(), shape->channels, shape->height, shape->width);
}

void keep_pixels(const nlohmann::json& saved, DataRecord& now) {
  const auto keep = [](const nlohmann::json& before, DataPart& part) {
    if (!before.is_object() || !before.contains("pixels") || !part.pixels.empty()) return;
    before["pixels"].at("of").get_to(part.pixels_of);
    before["pixels"].at("digest").get_to(part.pixels);
  };
  if (!is_known(saved, now)) return;
  keep(saved.at("train"), now.train);
  if (now.test) keep(saved.at("test"), *now.test);
}

nlohmann::json to_json(const DataRecord& record) {
  return {{"train", part_json(record.train)},
          {"test", part_json(record.test)},
          {"class_names", class_names_of(record)}};
}

void require_same_classes(const nlohmann::json& saved, const DataRecord& now, const char* scope) {
  if (!is_known(saved, now)) return;
  const auto before = saved.at("class_names").get<std::vector<std::string>>();
  const auto names = class_names_of(now);
  const auto different = std::ranges::mismatch(before, names).in1 - before.begin();
  const auto name = [different](const std::vector<std::string>& list) {
    return different < std::ssize(list) ? printable(list[different]) : "none";
  };
  require(before == names,
          "[{}] the weights were trained with other classes: label {} was {} and is now {} ({} "
          "classes before, {} now)",
          scope,
          different,
          name(before),
          name(names),
          before.size(),
          names.size());
}

std::string other_training_samples(const nlohmann::json& saved, const DataRecord& now) {
  return is_known(saved, now) ? difference_of("train", saved.at("train"), now.train) : "";
}

std::string other_samples(const nlohmann::json& saved, const DataRecord& now) {
  if (!is_known(saved, now)) return "";
  auto different = other_training_samples(saved, now);
  return different.empty() ? difference_of("test", saved.at("test"), now.test) : different;
}

}  // namespace dimred::engine
