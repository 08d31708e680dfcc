#include "training/weights/weights.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "checkpoints/part_names.h"
#include "checkpoints/runs.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "checkpoints/weight_names.h"
#include "merge/row_sums.h"
#include "support/counted.h"
#include "support/errors.h"
#include "training/state.h"
#include "training/weights/frozen.h"
#include "training/weights/matching.h"

namespace dimred::training {
namespace {

namespace fs = std::filesystem;
using checkpoints::ArtifactKind;

void require_layout(const Model& model, const Weights& weights) {
  const auto& trained = model.flat.layout.entries;
  refuse_missing(weights.layout_json, weights.source, [&](const std::string& name) {
    return std::ranges::find(trained, name, &layout::Entry::name) != trained.end();
  });
  const auto difference = layout::first_difference(model.flat.layout, weights.layout_json);
  require(
      difference.empty(), "[weights] {} belongs to another model: {}", weights.source, difference);
  require_same_frozen(model, weights.layout_json, weights.source);
}

/// Decoders of two machines may differ in the last digits.
bool is_close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

/// Refuses other classes; notes other samples, and inputs that are normalised otherwise.
void compare_data(const DataSets& data, Weights& weights) {
  if (weights.run_json.empty()) return;
  const auto saved = nlohmann::json::parse(weights.run_json);
  const auto record = saved.value("data", nlohmann::json());
  require_same_classes(record, data.record, "weights");
  const auto different = other_samples(record, data.record);
  if (!different.empty()) weights.note = "not the data of the weights' run: " + different;
  for (const auto& [name, now] : {std::pair("mean", &data.preprocessing.mean),
                                  std::pair("deviation", &data.preprocessing.deviation)}) {
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
checkpoints::ColumnRanges own_ranges(const Model& model, const std::string& layout_json) {
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
          .source = "snapshot " + path.string()};
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
          .source = "state of " + path.string()};
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
    const bool digit = letter >= '0' && letter <= '9';
    if (!digit) pattern += letter;
    if (digit && !pattern.ends_with('*')) pattern += '*';
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
Weights from_weights_file(const Model& model, const fs::path& path) {
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
          "[weights] {} belongs to a larger model: it has {} more tensors than the network, among "
          "them {}",
          path,
          matching.unused.size(),
          more);
  auto note = checkpoints::remarks_on(file);
  if (!matching.unused.empty())
    note += formatted(
        "{}unused: {}", note.empty() ? "" : "; ", checkpoints::count_and_names(matching.unused));
  if (!matching.unfolded.empty())
    note += formatted("; among them an adapter, which is not folded into the weights: {}",
                      checkpoints::count_and_names(matching.unfolded));
  auto& state = matching.state;
  return {.values = layout::own_part(model.flat.layout, std::move(state.vectors.at("weights"))),
          .buffers = std::move(state.vectors.at("buffers")),
          .counters = std::move(state.counters.at("counters")),
          .layout_json = carried_layout(model),
          .note = std::move(note),
          .source = file.format + " " + path.string()};
}

}  // namespace

Weights read_own(const checkpoints::Artifact& artifact, const ChooseRanges& choose) {
  if (artifact.kind == ArtifactKind::snapshot) return from_snapshot(artifact.path, choose);
  auto end = artifact.kind == ArtifactKind::run ? from_end(artifact.path, choose) : std::nullopt;
  return end ? std::move(*end) : from_state(artifact.path, choose);
}

Weights load_weights(const Setup& setup, const fs::path& path) {
  const auto artifact = checkpoints::look(path);
  require(artifact.kind != ArtifactKind::missing, "[weights] no such file or folder: {}", path);
  checkpoints::require_whole(path, "weights");
  require(artifact.is_one(),
          "[weights] needs one set of weights, but {} is not one; give a run, state, snapshot, "
          "weight file or a checkpoint's folder",
          path);
  if (artifact.kind != ArtifactKind::snapshot && !artifact.weights.empty()) {
    auto weights = from_weights_file(setup.model, artifact.weights);
    compare_data(setup.data, weights);
    return weights;
  }
  auto weights = read_own(
      artifact, [&](const std::string& layout) { return own_ranges(setup.model, layout); });
  require_layout(setup.model, weights);
  compare_data(setup.data, weights);
  return weights;
}

Weights mean_of_series(const Setup& setup, const fs::path& path, std::int64_t latest) {
  const auto series = latest_members(path, latest);
  merge::RowMean mean;
  std::vector<checkpoints::MemberRun> runs;
  Weights last;
  for (const auto& member : series.members) {
    last = load_weights(setup, member.weights);
    runs.push_back({member.path, checkpoints::identity_of(last.run_json)});
    mean.add(last.values);
  }
  const bool snapshots = series.members.back().weights.extension() == ".h5";
  last.values = mean.values();
  last.kind = "mean";
  last.needs_recalibration = true;
  auto remarks = series.remarks;
  if (auto remark = checkpoints::runs_remark(checkpoints::runs_of(runs)); !remark.empty())
    remarks.push_back(std::move(remark));
  for (const auto& remark : remarks) last.note += (last.note.empty() ? "" : "; ") + remark;
  last.source =
      formatted("mean of {}{} in {}",
                latest > 0 ? "the latest " : "",
                counted(std::ssize(series.members), snapshots ? "snapshot" : "checkpoint"),
                path);
  return last;
}

void apply(Model& model, const Weights& weights) {
  require(std::ssize(weights.buffers) == model.flat.buffers.numel(),
          "[weights] {} belongs to another model: the network has {} buffer values, but the file "
          "has {}",
          weights.source,
          model.flat.buffers.numel(),
          weights.buffers.size());
  models::assign(model.flat, weights.values, weights.buffers, weights.counters);
}

checkpoints::Series latest_members(const fs::path& path, std::int64_t latest) {
  auto series = checkpoints::members({path}, "weights");
  if (!series.counted && checkpoints::look(path).kind != ArtifactKind::list)
    checkpoints::sort_by_step(series);
  auto& members = series.members;
  require(latest <= std::ssize(members),
          "[weights] start_latest needs to be at most the {} snapshots of {}, received {}",
          members.size(),
          path,
          latest);
  if (latest > 0) members.erase(members.begin(), members.end() - latest);
  return series;
}

}  // namespace dimred::training
