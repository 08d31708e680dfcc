#include <algorithm>
#include <nlohmann/json.hpp>

#include "layout/layout.h"
#include "support/errors.h"

namespace dimred::layout {
namespace {

using Json = nlohmann::ordered_json;

struct Named {
  std::string name;
  std::vector<std::int64_t> shape;
  bool operator==(const Named&) const = default;
};

std::string text_of(const Named& parameter) {
  return concat(parameter.name, ' ', Json(parameter.shape).dump());
}

std::vector<Named> parse(const std::string& text) {
  try {
    std::vector<Named> parameters;
    const Json table = Json::parse(text);
    for (const Json& row : table.at("parameters")) {
      parameters.push_back(
          {row.at("name").get<std::string>(), row.at("shape").get<std::vector<std::int64_t>>()});
    }
    return parameters;
  } catch (const Json::exception& error) {
    throw std::runtime_error(concat("[layout] the text of a layout is damaged: ", error.what()));
  }
}

}  // namespace

std::string to_json(const Layout& layout) {
  Json rows = Json::array();
  for (const Entry& entry : layout.entries) {
    rows.push_back(
        {{"name", entry.name}, {"shape", entry.whole_shape()}, {"offset", entry.whole_offset}});
  }
  return Json{{"hash", layout.hash}, {"parameters", rows}}.dump();
}

std::string first_difference(const Layout& expected, const std::string& received_json) {
  const std::vector<Named> received = parse(received_json);
  const std::size_t common = std::min(expected.entries.size(), received.size());
  for (std::size_t i = 0; i < common; ++i) {
    const Named ours{expected.entries[i].name, expected.entries[i].whole_shape()};
    if (ours == received[i]) continue;
    return concat(
        "parameter ", i, ": expected ", text_of(ours), ", received ", text_of(received[i]));
  }
  if (received.size() > common) {
    return concat("expected ",
                  common,
                  " parameters, received ",
                  received.size(),
                  "; the first one more is ",
                  text_of(received[common]));
  }
  if (expected.entries.size() > common) {
    const Entry& missing = expected.entries[common];
    return concat("expected ",
                  expected.entries.size(),
                  " parameters, received ",
                  common,
                  "; the first one missing is ",
                  text_of({missing.name, missing.whole_shape()}));
  }
  return "";
}

}  // namespace dimred::layout
