#include "run/weights/weights.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "checkpoints/checkpoint.h"
#include "checkpoints/last_rate.h"
#include "checkpoints/part_names.h"
#include "checkpoints/runs.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "checkpoints/steps.h"
#include "checkpoints/weight_names.h"
#include "engine/weights/frozen.h"
#include "merge/row_sums.h"
#include "run/state.h"
#include "run/weights/frozen_file.h"
#include "run/weights/matching.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::run {
namespace {

namespace fs = std::filesystem;
using checkpoints::ArtifactKind;

void require_layout(const engine::Model& model, const Weights& weights) {
  const auto& trained = model.flat.layout.entries;
  refuse_missing(weights.layout_json, weights.source, [&](const std::string& name) {
    return std::ranges::find(trained, name, &layout::Entry::name) != trained.end();
  });
  const auto difference = layout::first_difference(model.flat.layout, weights.layout_json);
  require(
      difference.empty(), "[weights] {} belongs to another model: {}", weights.source, difference);
  engine::require_same_frozen(model, weights.layout_json, weights.source);
}

/// Decoders of two machines may differ in the last digits.
bool is_close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

/// Notes other samples, and inputs that are normalised otherwise. Refuses other classes, which have
/// another last layer: to be called before the layouts are compared.
void compare_data(const engine::DataSets& data, Weights& weights) {
  if (weights.run_json.empty()) return;
  const auto saved = nlohmann::json::parse(weights.run_json);
  const auto record = saved.value("data", nlohmann::json());
  engine::require_same_classes(record, data.record, "weights");
  const auto different = engine::other_samples(record, data.record);
  const bool trains = !engine::other_training_samples(record, data.record).empty();
  if (!different.empty())
    weights.note += formatted("{}{}: {}",
                              weights.note.empty() ? "" : "; ",
                              trains ? "these are not the data that the weights were trained on"
                                     : "this is not the test set of the run",
                              different);
  for (const auto& [name, now] : {std::pair("mean", &data.preprocessing.mean),
                                  std::pair("deviation", &data.preprocessing.deviation)}) {
    const auto trained = saved.value(name, *now);
    if (std::ranges::equal(trained, *now, is_close)) continue;
    weights.other_normalisation = true;
    weights.note += formatted("{}inputs have the {} {}; in training, the value was {}",
                              weights.note.empty() ? "" : "; ",
                              name,
                              nlohmann::json(*now).dump(),
                              nlohmann::json(trained).dump());
  }
}

/// This rank's part of the weights of a file with this table; all of another model's, which is
/// refused later.
checkpoints::ColumnRanges own_ranges(const engine::Model& model, const std::string& layout_json) {
  const auto& layout = model.flat.layout;
  if (!layout.sharded() || !layout::first_difference(layout, layout_json).empty()) return {};
  return layout::own_ranges(layout);
}

Weights from_snapshot(const fs::path& path, const ChooseRanges& choose) {
  auto snapshot = checkpoints::read_snapshot(
      path, [&](const checkpoints::SnapshotInfo& info) { return choose(info.layout_json); });
  return {.values = std::move(snapshot.weights),
          .buffers = std::move(snapshot.buffers),
          .counters = std::move(snapshot.counters),
          .epoch = snapshot.epoch,
          .step = snapshot.step,
          .layout_json = std::move(snapshot.layout_json),
          .run_json = std::move(snapshot.run_json),
          .source = formatted("snapshot {}", path)};
}

Weights from_state(const fs::path& path, const ChooseRanges& choose) {
  // The optimiser's vectors are not kept.
  auto state = read_run_state(path, [&](const std::string& vector, const nlohmann::json& scalars) {
    if (vector == "buffers") return checkpoints::ColumnRanges();
    if (vector != "weights") return checkpoints::ColumnRanges(std::in_place);
    return choose(scalars.at("layout").dump());
  });
  const auto position = position_from_json(state.scalars.at("position"));
  return {.values = std::move(state.vectors.at("weights")),
          .buffers = std::move(state.vectors.at("buffers")),
          .counters = std::move(state.counters.at("counters")),
          .epoch = position.epoch + (position.step_in_epoch > 0 ? 1 : 0),
          .step = position.step,
          .layout_json = state.scalars.at("layout").dump(),
          .run_json = state.scalars.dump(),
          .source = formatted("state of {} (step {})", path, position.step)};
}

/// A remark where a run's curve goes on behind its newest state: newer states are gone, or a run
/// that trains has not written the next one.
std::string curve_remark(const fs::path& run, std::int64_t step) {
  const auto last = checkpoints::last_step(run);
  if (last.value_or(0) <= step) return {};
  return formatted("curve.csv of {} goes on to step {}, but the newest state there is of step {}",
                   run,
                   *last,
                   step);
}

/// The result of a run that has come to its end, which an average or BatchNorm's recalibration may
/// have made of the last state; nothing when there is none, or the run went on from there.
std::optional<Weights> from_end(const fs::path& run, const ChooseRanges& choose) {
  const auto file = run / "final.h5";
  if (!fs::exists(file)) return std::nullopt;
  auto weights = from_snapshot(file, choose);
  const auto states = checkpoints::states_of(run);
  if (states.empty()) return weights;
  const auto scalars = checkpoints::read_state_header(states.back()).at("scalars");
  if (checkpoints::count_of(scalars, "step") > weights.step) return std::nullopt;
  return weights;
}

/// The name with * for each of its numbers.
std::string pattern_of(const std::string& name) {
  std::string pattern;
  for (const char letter : name) {
    if (!is_digit(letter)) pattern += letter;
    if (is_digit(letter) && !pattern.ends_with('*')) pattern += '*';
  }
  return pattern;
}

/// The first of the unused names that goes on where a network's names end: layer1.3 behind
/// layer1.2. The file is then of a deeper network; empty where there is none.
std::string deeper(const Matching& matching) {
  std::set<std::string> used;
  for (const auto& name : matching.loaded) used.insert(pattern_of(name));
  const auto found = std::ranges::find_if(matching.unused, [&](const std::string& name) {
    const auto pattern = pattern_of(name);
    return pattern.find('*') != std::string::npos && used.contains(pattern);
  });
  return found == matching.unused.end() ? "" : *found;
}

/// Every tensor of the network. Others are unused, which the note says; those of a deeper network
/// of the same names are refused.
Weights from_weights_file(const engine::Model& model, const fs::path& path) {
  const auto file = foreign_weights(model, path);
  std::vector<float> nothing(model.flat.layout.global_size);
  auto matching = match(
      model, file, [](const std::string&) { return true; }, std::move(nothing));
  require(matching.problems.empty(),
          "[weights] {} belongs to another model: {}",
          path,
          first_problems(matching));
  const auto more = deeper(matching);
  require(more.empty(),
          "[weights] {} belongs to a larger model: the file has {} more tensors than the network, "
          "among them {}",
          path,
          matching.unused.size(),
          more);
  auto note = checkpoints::remarks_on(file);
  if (!matching.unused.empty())
    note += formatted(
        "{}unused: {}", note.empty() ? "" : "; ", checkpoints::count_and_names(matching.unused));
  if (!matching.unfolded.empty())
    note += formatted("; among them an adapter, which is not merged into the weights: {}",
                      checkpoints::count_and_names(matching.unfolded));
  auto& state = matching.state;
  return {.values = layout::own_part(model.flat.layout, std::move(state.vectors.at("weights"))),
          .buffers = std::move(state.vectors.at("buffers")),
          .counters = std::move(state.counters.at("counters")),
          .layout_json = engine::carried_layout(model),
          .averaging = file.averaging,
          .note = std::move(note),
          .source = formatted("{} {}", file.format, path)};
}

/// The step that a snapshot's file holds; nothing for other files.
std::optional<std::int64_t> held_step(const checkpoints::Member& member, const Weights& weights) {
  return member.kind == ArtifactKind::snapshot ? std::optional(weights.step) : std::nullopt;
}

}  // namespace

Weights read_own(const checkpoints::Artifact& artifact, const ChooseRanges& choose) {
  if (artifact.kind == ArtifactKind::snapshot) return from_snapshot(artifact.path, choose);
  if (artifact.kind != ArtifactKind::run) return from_state(artifact.path, choose);
  if (auto end = from_end(artifact.path, choose)) return std::move(*end);
  auto weights = from_state(artifact.path, choose);
  weights.note = curve_remark(artifact.path, weights.step);
  return weights;
}

Weights load_weights(const engine::Setup& setup, const fs::path& path) {
  const auto artifact = checkpoints::look(path);
  require(artifact.kind != ArtifactKind::missing, "[weights] no such file or folder: {}", path);
  checkpoints::require_whole(path, "weights");
  require(artifact.is_one(),
          "[weights] needs one set of weights, received {}; give a run, state, snapshot, weight "
          "file or checkpoint folder",
          path);
  if (artifact.kind != ArtifactKind::snapshot && !artifact.weights.empty()) {
    auto weights = from_weights_file(setup.model, artifact.weights);
    compare_data(setup.data, weights);
    return weights;
  }
  auto weights = read_own(
      artifact, [&](const std::string& layout) { return own_ranges(setup.model, layout); });
  compare_data(setup.data, weights);
  require_layout(setup.model, weights);
  return weights;
}

Weights mean_of_series(const engine::Setup& setup, const fs::path& path, std::int64_t latest) {
  auto series = latest_members(path, latest);
  merge::RowMean mean;
  std::vector<checkpoints::MemberFacts> facts;
  Weights last;
  std::vector<std::string> remarks, records;
  bool other_normalisation = false;
  for (const auto& member : series.members) {
    last = load_weights(setup, member.weights);
    other_normalisation = other_normalisation || last.other_normalisation;
    if (!last.note.empty() && std::ranges::find(remarks, last.note) == remarks.end())
      remarks.push_back(last.note);
    const auto run = checkpoints::identity_of(last.run_json);
    if (!last.run_json.empty() &&
        std::ranges::find(facts, run, &checkpoints::MemberFacts::run) == facts.end())
      records.push_back(last.run_json);
    facts.push_back({member.path, held_step(member, last), run, last.averaging});
    mean.add(last.values);
  }
  checkpoints::require_one_averaging(facts, "weights");
  const bool snapshots = series.members.back().weights.extension() == ".h5";
  last.values = mean.values();
  last.runs = std::move(records);
  last.kind = "mean";
  last.needs_recalibration = true;
  last.other_normalisation = other_normalisation;
  remarks.insert(remarks.end(), series.remarks.begin(), series.remarks.end());
  if (auto remark = checkpoints::runs_remark(facts); !remark.empty())
    remarks.push_back(std::move(remark));
  if (auto difference = checkpoints::step_difference(facts); !difference.empty()) {
    series.unordered = difference;
    if (latest > 0 && !series.listed) checkpoints::require_order(series, "weights", "start_latest");
    remarks.push_back(std::move(difference));
  }
  last.note = joined(remarks, "; ");
  last.source =
      formatted("mean of {}{} in {}",
                latest > 0 ? "the latest " : "",
                counted(std::ssize(series.members), snapshots ? "snapshot" : "checkpoint"),
                path);
  return last;
}

void apply(engine::Model& model, const Weights& weights) {
  require(std::ssize(weights.buffers) == model.flat.buffers.numel(),
          "[weights] {} belongs to another model: the network has {} buffer values, but the file "
          "has {}",
          weights.source,
          model.flat.buffers.numel(),
          weights.buffers.size());
  models::assign(model.flat, weights.values, weights.buffers, weights.counters);
  if (!weights.needs_recalibration) engine::require_variances(model, "[weights] " + weights.source);
}

checkpoints::Series latest_members(const fs::path& path, std::int64_t latest) {
  auto series = checkpoints::members({path}, "weights");
  checkpoints::put_in_order(series, checkpoints::look(path).kind == ArtifactKind::list);
  auto& members = series.members;
  require(latest <= std::ssize(members),
          "[weights] start_latest must not exceed the {} snapshots of {}, received {}",
          members.size(),
          path,
          latest);
  if (latest > 0 && latest < std::ssize(members))
    checkpoints::require_order(series, "weights", "start_latest");
  if (latest > 0) members.erase(members.begin(), members.end() - latest);
  return series;
}

}  // namespace dimred::run
