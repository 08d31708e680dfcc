#include "engine/weights/frozen.h"

#include <nlohmann/json.hpp>

#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"

namespace dimred::engine {
namespace {

nlohmann::json table_of(const std::vector<models::NamedTensor>& buffers, bool floating) {
  auto rows = nlohmann::json::array();
  for (const auto& buffer : buffers) {
    if (buffer.tensor.is_floating_point() == floating)
      rows.push_back({{"name", buffer.name}, {"shape", buffer.tensor.sizes().vec()}});
  }
  return rows;
}

}  // namespace

bool is_any_frozen(const Model& model) { return !model.flat.frozen_layout.entries.empty(); }

std::vector<float> frozen_values(const Model& model) {
  return models::to_file(model.flat.frozen_layout, model.flat.frozen);
}

std::string frozen_digest(const layout::Layout& layout, const std::vector<float>& values) {
  auto stream = layout::frozen_digest(layout);
  stream.update(values);
  return stream.hex();
}

void record_frozen_digest(Model& model) {
  if (!is_any_frozen(model)) return;
  model.frozen_digest = frozen_digest(model.flat.frozen_layout, frozen_values(model));
}

std::string carried_layout(const Model& model) {
  auto table = nlohmann::ordered_json::parse(layout::to_json(model.flat.layout));
  const auto buffers = model.objective->buffers();
  table["buffers"] = table_of(buffers, true);
  table["counters"] = table_of(buffers, false);
  if (is_any_frozen(model)) table["frozen"] = model.frozen_digest;
  return table.dump();
}

void require_same_frozen(const Model& model,
                         const std::string& layout_json,
                         const std::string& source) {
  const auto theirs = parse_json(layout_json, formatted("[weights] the layout of {}", source))
                          .value("frozen", std::string());
  require(theirs == model.frozen_digest,
          "[weights] {} was trained with other frozen parameters (digest {}) than this run has "
          "(digest {})",
          source,
          theirs.empty() ? "none" : theirs,
          model.frozen_digest.empty() ? "none" : model.frozen_digest);
}

}  // namespace dimred::engine
