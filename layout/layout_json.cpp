#include <algorithm>
#include <nlohmann/json.hpp>

#include "layout/layout.h"
#include "support/errors.h"
#include "support/json.h"

namespace dimred::layout {
namespace {

using Json = nlohmann::ordered_json;

struct Named {
  std::string name;
  std::vector<std::int64_t> shape;
  bool operator==(const Named&) const = default;
};

std::string text_of(const Named& parameter) {
  return formatted("{} {}", parameter.name, Json(parameter.shape).dump());
}

std::vector<Named> parse(const std::string& text) {
  try {
    std::vector<Named> parameters;
    const Json table = parse_ordered_json(text, "[layout] the text of a layout is damaged");
    for (const Json& row : table.at("parameters")) {
      parameters.push_back(
          {row.at("name").get<std::string>(), row.at("shape").get<std::vector<std::int64_t>>()});
    }
    return parameters;
  } catch (const Json::exception& error) {
    throw std::runtime_error(
        formatted("[layout] the text of a layout is damaged: {}", error.what()));
  }
}

}  // namespace

std::string to_json(const Layout& layout) {
  Json rows = Json::array();
  for (const Entry& entry : layout.entries) {
    rows.push_back(
        {{"name", entry.name}, {"shape", entry.global_shape()}, {"offset", entry.global_offset}});
  }
  return Json{{"hash", layout.hash}, {"parameters", rows}}.dump();
}

std::string first_difference(const Layout& expected, const std::string& received_json) {
  const std::vector<Named> received = parse(received_json);
  const std::size_t common = std::min(expected.entries.size(), received.size());
  for (std::size_t i = 0; i < common; ++i) {
    const Named ours{expected.entries[i].name, expected.entries[i].global_shape()};
    if (ours == received[i]) continue;
    return formatted(
        "parameter {}: expected {}, received {}", i, text_of(ours), text_of(received[i]));
  }
  if (received.size() > common) {
    return formatted("expected {} parameters, received {}; the first one more is {}",
                     common,
                     received.size(),
                     text_of(received[common]));
  }
  if (expected.entries.size() > common) {
    const Entry& missing = expected.entries[common];
    return formatted("expected {} parameters, received {}; the first one missing is {}",
                     expected.entries.size(),
                     common,
                     text_of({missing.name, missing.global_shape()}));
  }
  return "";
}

}  // namespace dimred::layout
