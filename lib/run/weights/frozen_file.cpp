#include "run/weights/frozen_file.h"

#include <algorithm>
#include <optional>

#include "checkpoints/artifact.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/state.h"
#include "checkpoints/weight_names.h"
#include "checkpoints/weights_file.h"
#include "engine/weights/frozen.h"
#include "run/state.h"
#include "run/weights/matching.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::run {
namespace {

namespace fs = std::filesystem;

fs::path source_of(const engine::Model& model, const fs::path& near) {
  const auto artifact = checkpoints::look(near);
  const bool foreign =
      artifact.kind != checkpoints::ArtifactKind::snapshot && !artifact.weights.empty();
  if (foreign) return artifact.weights;  // wherever it lies
  const auto file = checkpoints::frozen_file_of(near);
  require(!file.empty(),
          "[weights] trainable_include_patterns and trainable_exclude_patterns freeze {}, but {} "
          "with the frozen values is not beside or above {}",
          checkpoints::count_and_names(
              texts_of(model.flat.frozen_layout.entries, &layout::Entry::name)),
          frozen_file_name,
          near);
  return file;
}

/// Every frozen tensor by its name.
std::vector<float> picked(const engine::Model& model, const checkpoints::WeightsFile& file) {
  std::vector<float> values;
  for (const auto& entry : model.flat.frozen_layout.entries) {
    const auto found =
        std::ranges::find(file.tensors, entry.name, &checkpoints::WeightTensor::name);
    require(found != file.tensors.end() && found->floating && found->shape == entry.shape,
            "[weights] the file of frozen parameters belongs to another model or to other frozen "
            "parameters: {} is missing or has another shape",
            entry.name);
    values.insert(values.end(), found->values.begin(), found->values.end());
  }
  return values;
}

}  // namespace

void keep_frozen(const engine::Setup& setup, const fs::path& folder) {
  if (!engine::is_any_frozen(setup.model) || setup.communicator->rank() != 0) return;
  const auto file = folder / frozen_file_name;
  if (fs::exists(file) && !checkpoints::states_of(folder).empty()) {
    const auto kept = picked(setup.model, checkpoints::read_weights(file));
    require(
        engine::frozen_digest(setup.model.flat.frozen_layout, kept) == setup.model.frozen_digest,
        "[weights] the run {} and the checkpoint have different frozen parameters; choose "
        "another --output to start from the beginning",
        folder);
    return;
  }
  const auto values = engine::frozen_values(setup.model);
  std::vector<checkpoints::FloatTensor> tensors;
  for (const auto& entry : setup.model.flat.frozen_layout.entries) {
    const auto begin = values.begin() + entry.file_offset;
    tensors.push_back({entry.name, entry.shape, {begin, begin + entry.size}});
  }
  checkpoints::write_safetensors(folder / frozen_file_name, tensors);
}

void load_frozen(engine::Setup& setup, const fs::path& near) {
  if (!engine::is_any_frozen(setup.model)) return;
  const auto state = shared_state(setup, [&] {
    const auto file = source_of(setup.model, near);
    const bool is_ours = file.filename() == frozen_file_name;
    checkpoints::State read;
    try {
      const auto weights =
          is_ours ? checkpoints::read_weights(file) : foreign_weights(setup.model, file);
      read.vectors["frozen"] = picked(setup.model, weights);
    } catch (const std::invalid_argument& error) {
      refuse("{} ({})", error.what(), file);
    }
    return std::optional(std::move(read));
  });
  models::from_file(
      setup.model.flat.frozen_layout, state->vectors.at("frozen"), setup.model.flat.frozen);
  engine::record_frozen_digest(setup.model);
}

void refuse_missing(const std::string& layout_json,
                    const std::string& source,
                    const std::function<bool(const std::string& name)>& is_needed) {
  auto missing = checkpoints::missing_parameters(layout_json);
  std::erase_if(missing, [&](const std::string& name) { return !is_needed(name); });
  require(missing.empty(),
          "[weights] {} has no values of {}, because the run recorded only trainable parameters; "
          "record with trainable_only=False, or put the absent values into {} beside the snapshots "
          "and freeze their parameters with --trainable_exclude_patterns",
          source,
          checkpoints::count_and_names(missing),
          frozen_file_name);
}

}  // namespace dimred::run
