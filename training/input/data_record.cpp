#include "training/input/data_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/option_values.h"

namespace dimred::training {
namespace {

DataPart part_of(const data::Dataset& dataset) {
  return {dataset.description(), dataset.size(), dataset.digest()};
}

nlohmann::json part_json(const DataPart& part) {
  return {{"description", utf8_text(part.description)},
          {"samples", part.samples},
          {"digest", utf8_text(part.digest)}};
}

std::vector<std::string> names_of(const DataRecord& record) {
  auto names = record.class_names;
  for (auto& name : names) name = utf8_text(name);
  return names;
}

bool is_known(const nlohmann::json& saved, const DataRecord& now) {
  return !saved.is_null() && !now.class_names.empty();
}

}  // namespace

DataRecord record_of(const data::Dataset& train, const data::Dataset& test) {
  return {part_of(train), part_of(test), train.class_names()};
}

nlohmann::json to_json(const DataRecord& record) {
  return {{"train", part_json(record.train)},
          {"test", part_json(record.test)},
          {"class_names", names_of(record)}};
}

void require_same_classes(const nlohmann::json& saved, const DataRecord& now, const char* scope) {
  if (!is_known(saved, now)) return;
  const auto before = saved.at("class_names").get<std::vector<std::string>>();
  const auto names = names_of(now);
  const auto different =
      std::mismatch(before.begin(), before.end(), names.begin(), names.end()).first -
      before.begin();
  const auto name = [different](const std::vector<std::string>& list) {
    const auto at = static_cast<std::size_t>(different);
    return at < list.size() ? printable(list[at]) : std::string("none");
  };
  require(before == names,
          "[{}] the weights were trained for the classes of other data: label {} was {}, now it is "
          "{} ({} classes before, {} now)",
          scope,
          different,
          name(before),
          name(names),
          before.size(),
          names.size());
}

std::string other_samples(const nlohmann::json& saved, const DataRecord& now) {
  if (!is_known(saved, now)) return "";
  for (const auto& [key, part] : {std::pair("train", &now.train), std::pair("test", &now.test)}) {
    const auto& before = saved.at(key);
    if (before.at("samples") == part->samples && before.at("digest") == utf8_text(part->digest))
      continue;
    return formatted("the {} set has other samples: it was {}; now it is {}",
                     key,
                     before.at("description").get<std::string>(),
                     utf8_text(part->description));
  }
  return "";
}

}  // namespace dimred::training
