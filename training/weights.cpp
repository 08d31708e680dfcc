#include "training/weights.h"

#include <algorithm>

#include "checkpoints/safetensors.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "support/errors.h"
#include "training/snapshot_mean.h"
#include "training/state.h"

namespace dimred::training {
namespace {

namespace fs = std::filesystem;

void require_layout(const Setup& setup, const Weights& weights) {
  const auto difference = layout::first_difference(setup.flat.layout, weights.layout_json);
  require(difference.empty(),
          "training::weights",
          weights.source,
          " belongs to another model: ",
          difference);
}

/// The record of the data in a run's newest state; empty when there is none to be read.
std::string recorded_data(const fs::path& run) {
  const auto states = checkpoints::StateStore(run / "checkpoints", 1).list();
  if (states.empty()) return "";
  try {
    const auto header = checkpoints::read_state_header(states.back());
    return header.at("scalars").value("data", nlohmann::json()).dump();
  } catch (const std::exception&) {
    return "";  // a snapshot is whole without the state beside it
  }
}

/// Refuses other classes; notes other samples.
void compare_data(const Setup& setup, Weights& weights) {
  if (weights.data_json.empty()) return;
  const auto saved = nlohmann::json::parse(weights.data_json);
  require_same_classes(saved, setup.data_record, "training::weights");
  const auto different = other_samples(saved, setup.data_record);
  if (!different.empty()) weights.note = "not the data of the weights' run: " + different;
}

Weights from_snapshot(const fs::path& path) {
  auto snapshot = checkpoints::read_snapshot(path);
  return {.values = std::move(snapshot.weights),
          .buffers = std::move(snapshot.buffers),
          .counters = std::move(snapshot.counters),
          .epoch = snapshot.epoch,
          .step = snapshot.step,
          .layout_json = std::move(snapshot.layout_json),
          .data_json = recorded_data(fs::absolute(path).parent_path().parent_path()),
          .source = "snapshot " + path.string()};
}

Weights from_state(checkpoints::State state, const std::string& source) {
  const auto position = position_from_json(state.scalars.at("position"));
  return {.values = std::move(state.vectors.at("weights")),
          .buffers = std::move(state.vectors.at("buffers")),
          .counters = std::move(state.counters.at("counters")),
          .epoch = position.epoch + (position.step_in_epoch > 0 ? 1 : 0),
          .step = position.step,
          .layout_json = state.scalars.at("layout").dump(),
          .data_json = state.scalars.value("data", nlohmann::json()).dump(),
          .source = source};
}

/// Appends the tensor called `name` to `target`; its size must fit.
void append_tensor(const fs::path& path,
                   const std::vector<checkpoints::TensorInfo>& tensors,
                   const models::NamedTensor& wanted,
                   Weights& weights,
                   bool parameter) {
  const auto found = std::find_if(
      tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == wanted.name; });
  require(found != tensors.end(),
          "training::weights",
          path.string(),
          " belongs to another model: it has no tensor ",
          wanted.name);
  require(found->shape == wanted.tensor.sizes().vec(),
          "training::weights",
          path.string(),
          " belongs to another model: shape of ",
          wanted.name,
          " differs");
  if (wanted.tensor.is_floating_point()) {
    const auto values = checkpoints::read_float_tensor(path, *found);
    auto& target = parameter ? weights.values : weights.buffers;
    target.insert(target.end(), values.begin(), values.end());
  } else {
    const auto values = checkpoints::read_integer_tensor(path, *found);
    weights.counters.insert(weights.counters.end(), values.begin(), values.end());
  }
}

Weights from_safetensors(const Setup& setup, const fs::path& path) {
  const auto tensors = checkpoints::read_safetensors_header(path);
  Weights weights;
  weights.layout_json = layout::to_json(setup.flat.layout);
  weights.source = "safetensors " + path.string();
  const auto parameters = setup.objective->parameters();
  const auto buffers = setup.objective->buffers();
  for (const auto& parameter : parameters) append_tensor(path, tensors, parameter, weights, true);
  for (const auto& buffer : buffers) append_tensor(path, tensors, buffer, weights, false);
  require(tensors.size() == parameters.size() + buffers.size(),
          "training::weights",
          path.string(),
          " belongs to another model: it has ",
          tensors.size(),
          " tensors, the network ",
          parameters.size() + buffers.size());
  return weights;
}

Weights read_any(const Setup& setup, const fs::path& path) {
  require(fs::exists(path), "training::weights", "no such file or folder: ", path.string());
  if (fs::is_directory(path)) {
    return from_state(read_run_state(path), "state of " + path.string());
  }
  if (path.extension() == ".safetensors") return from_safetensors(setup, path);
  return from_snapshot(path);
}

}  // namespace

Weights load_weights(const Setup& setup, const fs::path& path) {
  auto weights = read_any(setup, path);
  require_layout(setup, weights);
  compare_data(setup, weights);
  return weights;
}

Weights mean_of_snapshots(const Setup& setup, const fs::path& folder, std::int64_t latest) {
  const auto files = snapshot_files(folder, latest);
  Mean mean;
  Weights last;
  for (const auto& file : files) {
    last = load_weights(setup, file);
    mean.add(last.values);
  }
  last.values = mean.values();
  last.kind = "mean";
  last.needs_recalibration = true;
  last.source = concat(
      "mean of ", latest > 0 ? "the latest " : "", files.size(), " snapshots in ", folder.string());
  return last;
}

void apply(Setup& setup, const Weights& weights) {
  models::from_file(setup.flat.layout, weights.values, setup.flat.weights);
  require(static_cast<std::int64_t>(weights.buffers.size()) == setup.flat.buffers.numel(),
          "training::weights",
          weights.source,
          " belongs to another model: the network has ",
          setup.flat.buffers.numel(),
          " buffer values, the file ",
          weights.buffers.size());
  models::assign(setup.flat.buffers, std::span<const float>(weights.buffers));
  models::assign(setup.flat.counters, std::span<const std::int64_t>(weights.counters));
}

}  // namespace dimred::training
