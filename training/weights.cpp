#include "training/weights.h"

#include <algorithm>
#include <cmath>

#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "support/errors.h"
#include "training/frozen.h"
#include "training/named_weights.h"
#include "training/snapshot_mean.h"
#include "training/state.h"

namespace dimred::training {
namespace {

namespace fs = std::filesystem;

void require_layout(const Setup& setup, const Weights& weights) {
  const auto difference = layout::first_difference(setup.flat.layout, weights.layout_json);
  require(difference.empty(),
          "[training::weights] {} belongs to another model: {}",
          weights.source,
          difference);
  require_same_frozen(setup, weights.layout_json, weights.source);
}

/// The record in a run's newest state; empty when there is none to be read. For snapshots of an
/// earlier version, which have none of their own.
std::string recorded_beside(const fs::path& run) {
  const auto states = checkpoints::StateStore(run / "checkpoints", 1).list();
  if (states.empty()) return "";
  try {
    return checkpoints::read_state_header(states.back()).at("scalars").dump();
  } catch (const std::exception&) {
    return "";  // a snapshot is whole without the state beside it
  }
}

/// Decoders of two machines may differ in the last digits.
bool is_close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

/// Refuses other classes; notes other samples, and inputs that are normalised otherwise.
void compare_data(const Setup& setup, Weights& weights) {
  if (weights.run_json.empty()) return;
  const auto saved = nlohmann::json::parse(weights.run_json);
  const auto data = saved.value("data", nlohmann::json());
  require_same_classes(data, setup.data_record, "training::weights");
  const auto different = other_samples(data, setup.data_record);
  if (!different.empty()) weights.note = "not the data of the weights' run: " + different;
  for (const auto& [name, now] : {std::pair("mean", &setup.preprocessing.mean),
                                  std::pair("deviation", &setup.preprocessing.deviation)}) {
    const auto trained = saved.value(name, *now);
    if (std::ranges::equal(trained, *now, is_close)) continue;
    weights.other_normalisation = true;
    weights.note += formatted("{}inputs have the {} {}, in training it was {}",
                              weights.note.empty() ? "" : "; ",
                              name,
                              nlohmann::json(*now).dump(),
                              nlohmann::json(trained).dump());
  }
}

/// This rank's part of the weights of a file with this table; all of another model's, which is
/// refused later.
checkpoints::ColumnRanges own_ranges(const Setup& setup, const std::string& layout_json) {
  const auto& layout = setup.flat.layout;
  if (!layout.sharded() || !layout::first_difference(layout, layout_json).empty()) return {};
  return layout::own_ranges(layout);
}

Weights from_snapshot(const Setup& setup, const fs::path& path) {
  auto snapshot = checkpoints::read_snapshot(path, [&](const checkpoints::SnapshotInfo& info) {
    return own_ranges(setup, info.layout_json);
  });
  if (snapshot.run_json.empty())
    snapshot.run_json = recorded_beside(fs::absolute(path).parent_path().parent_path());
  return {.values = std::move(snapshot.weights),
          .buffers = std::move(snapshot.buffers),
          .counters = std::move(snapshot.counters),
          .epoch = snapshot.epoch,
          .step = snapshot.step,
          .layout_json = std::move(snapshot.layout_json),
          .run_json = std::move(snapshot.run_json),
          .source = "snapshot " + path.string()};
}

Weights from_state(const Setup& setup, const fs::path& path) {
  // Of the optimiser's vectors nothing is kept.
  auto state = read_run_state(path, [&](const std::string& vector, const nlohmann::json& scalars) {
    if (vector == "buffers") return checkpoints::ColumnRanges();
    if (vector != "weights") return checkpoints::ColumnRanges(std::in_place);
    return own_ranges(setup, scalars.at("layout").dump());
  });
  const auto position = position_from_json(state.scalars.at("position"));
  return {.values = std::move(state.vectors.at("weights")),
          .buffers = std::move(state.vectors.at("buffers")),
          .counters = std::move(state.counters.at("counters")),
          .epoch = position.epoch + (position.step_in_epoch > 0 ? 1 : 0),
          .step = position.step,
          .layout_json = state.scalars.at("layout").dump(),
          .run_json = state.scalars.dump(),
          .source = "state of " + path.string()};
}

/// Every tensor of the network, and nothing else but what MindSpore keeps beside weights.
Weights from_weights_file(const Setup& setup, const fs::path& path) {
  const auto file = foreign_weights(setup, path);
  std::vector<float> nothing(static_cast<std::size_t>(setup.flat.layout.whole_size));
  auto matching = match(
      setup, file, [](const std::string&) { return true; }, std::move(nothing));
  require(matching.problems.empty(),
          "[training::weights] {} belongs to another model: {}",
          path.string(),
          first_problems(matching));
  require(matching.unused.empty() || file.format == "MindSpore",
          "[training::weights] {} belongs to another model: it has {} tensors more than the "
          "network, the first one is {}",
          path.string(),
          matching.unused.size(),
          matching.unused.empty() ? "" : matching.unused.front());
  auto& state = matching.state;
  return {.values = layout::own_part(setup.flat.layout, std::move(state.vectors.at("weights"))),
          .buffers = std::move(state.vectors.at("buffers")),
          .counters = std::move(state.counters.at("counters")),
          .layout_json = carried_layout(setup),
          .source = file.format + " " + path.string()};
}

Weights read_any(const Setup& setup, const fs::path& path) {
  require(fs::exists(path), "[training::weights] no such file or folder: {}", path.string());
  const bool state = fs::is_directory(path);
  if (!state && !checkpoints::is_snapshot(path)) return from_weights_file(setup, path);
  auto weights = state ? from_state(setup, path) : from_snapshot(setup, path);
  require_layout(setup, weights);
  return weights;
}

}  // namespace

Weights load_weights(const Setup& setup, const fs::path& path) {
  auto weights = read_any(setup, path);
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
  last.source = formatted("mean of {}{} snapshots in {}",
                          latest > 0 ? "the latest " : "",
                          files.size(),
                          folder.string());
  return last;
}

void apply(Setup& setup, const Weights& weights) {
  models::from_file(setup.flat.layout, weights.values, setup.flat.weights);
  require(static_cast<std::int64_t>(weights.buffers.size()) == setup.flat.buffers.numel(),
          "[training::weights] {} belongs to another model: the network has {} buffer values, the "
          "file {}",
          weights.source,
          setup.flat.buffers.numel(),
          weights.buffers.size());
  models::assign(setup.flat.buffers, std::span<const float>(weights.buffers));
  models::assign(setup.flat.counters, std::span<const std::int64_t>(weights.counters));
}

}  // namespace dimred::training
