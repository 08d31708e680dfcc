#include <algorithm>
#include <nlohmann/json.hpp>

#include "layout/layout.h"
#include "support/errors.h"
#include "support/json.h"

namespace dimred::layout {
namespace {

using Json = nlohmann::ordered_json;

std::string row_text(const Parameter& parameter) {
  return formatted("{} {}", parameter.name, Json(parameter.global_shape()).dump());
}

/// Names and whole shapes.
std::vector<Parameter> parse(const std::string& text) {
  try {
    std::vector<Parameter> parameters;
    const auto table =
        parse_ordered_json(text, "[layout] the text of a layout is damaged", table_json_limits);
    for (const auto& row : table.at("parameters")) {
      parameters.push_back(
          {row.at("name").get<std::string>(), row.at("shape").get<std::vector<std::int64_t>>()});
    }
    return parameters;
  } catch (const Json::exception& error) {
    fail_environment("[layout] the text of a layout is damaged: {}", error.what());
  }
}

}  // namespace

std::string to_json(const Layout& layout) {
  auto rows = Json::array();
  for (const auto& entry : layout.entries) {
    rows.push_back(
        {{"name", entry.name}, {"shape", entry.global_shape()}, {"offset", entry.global_offset}});
  }
  return Json{{"hash", layout.hash}, {"parameters", rows}}.dump();
}

Layout layout_from_json(const std::string& text) { return make_layout(parse(text)); }

std::string first_difference(const Layout& expected, const std::string& received_json) {
  const auto received = parse(received_json);
  const auto common = std::min(expected.entries.size(), received.size());
  for (std::size_t i = 0; i < common; ++i) {
    const auto ours = row_text(expected.entries[i]), theirs = row_text(received[i]);
    if (ours != theirs) return formatted("parameter {}: expected {}, received {}", i, ours, theirs);
  }
  if (received.size() > common) {
    return formatted("expected {} parameters, received {}; the first additional parameter is {}",
                     common,
                     received.size(),
                     row_text(received[common]));
  }
  if (expected.entries.size() > common) {
    return formatted("expected {} parameters, received {}; the first missing parameter is {}",
                     expected.entries.size(),
                     common,
                     row_text(expected.entries[common]));
  }
  return "";
}

}  // namespace dimred::layout
