#include "run/state.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <span>
#include <type_traits>

#include "engine/device/device_stream.h"
#include "engine/weights/frozen.h"
#include "engine/weights/full_vector.h"
#include "support/agreement.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::run {
namespace {

/// Diverged weights end the run before they reach a file.
void require_finite(bool finite, std::int64_t step) {
  require_environment(finite,
                      "[training] the weights are not finite after step {}; earlier files are "
                      "kept; a lower learning rate may help",
                      step);
}

/// On every rank, when one's are not.
void require_finite(const engine::Setup& setup, const Position& position) {
  require_finite(
      engine::on_all_ranks(setup,
                           torch::isfinite(setup.model.flat.weights).all().item<bool>() &&
                               torch::isfinite(setup.model.flat.buffers).all().item<bool>()),
      position.step);
}

void require_finite(std::initializer_list<std::span<const float>> values, std::int64_t step) {
  const auto is_finite = [](float value) { return std::isfinite(value); };
  for (const auto& part : values) require_finite(std::ranges::all_of(part, is_finite), step);
}

/// The header of a state, which the other ranks need before its vectors come.
nlohmann::json header_of(const checkpoints::State& state) {
  nlohmann::json vectors = nlohmann::json::object(), counters = nlohmann::json::object();
  for (const auto& [name, values] : state.vectors) vectors[name] = values.size();
  for (const auto& [name, values] : state.counters) counters[name] = values.size();
  return {{"scalars", state.scalars}, {"vectors", vectors}, {"counters", counters}};
}

template <class T>
void send_values(distributed::TensorCommunicator& communicator, std::span<T> values) {
  if (values.empty()) return;
  constexpr auto type = std::is_same_v<T, float> ? torch::kFloat32 : torch::kInt64;
  auto tensor = torch::from_blob(values.data(), {std::ssize(values)}, type);
  communicator.broadcast(tensor, 0);
}

template <class T>
void share(distributed::TensorCommunicator& communicator,
           std::vector<T>& values,
           std::size_t size) {
  values.resize(size);
  send_values(communicator, std::span(values));
}

/// This rank's part of a vector [M] that rank 0 has; no other rank ever has more than its part and
/// 64 MB of it.
void share_parts(const engine::Setup& setup, std::vector<float>& values) {
  constexpr std::int64_t most_at_a_time = std::int64_t{16} << 20;  // elements
  const auto& layout = setup.model.flat.layout;
  auto& communicator = *setup.communicator;
  const bool root = communicator.rank() == 0;
  const auto ranges = layout::own_ranges(layout);
  std::vector<float> own;
  own.reserve(layout.file_size);
  std::vector<float> received;
  for (std::int64_t begin = 0; begin < layout.global_size; begin += most_at_a_time) {
    const auto size = std::min(most_at_a_time, layout.global_size - begin);
    if (!root) received.resize(size);
    const auto part = root ? std::span(values).subspan(begin, size) : std::span(received);
    send_values(communicator, part);
    for (const auto& range : ranges) {
      const auto first = std::max(range.begin, begin) - begin;
      const auto last = std::min(range.end, begin + size) - begin;
      if (first < last) own.insert(own.end(), part.begin() + first, part.begin() + last);
    }
  }
  values = std::move(own);
}

/// The facts that later use of the weights depends on beside the network; those not known (in
/// tests) are left out.
nlohmann::json facts_of(const engine::Setup& setup, const RunRecord& record) {
  auto facts = nlohmann::json::object();
  if (!record.config.empty()) facts["config"] = record.config;
  if (!record.run.id.empty()) facts["run"] = checkpoints::to_json(record.run);
  if (!setup.data.record.class_names.empty()) facts["data"] = engine::to_json(setup.data.record);
  if (!setup.data.preprocessing.mean.empty()) {
    facts["mean"] = setup.data.preprocessing.mean;
    facts["deviation"] = setup.data.preprocessing.deviation;
  }
  return facts;
}

/// Throws std::runtime_error for a count that is none.
engine::LossScaleState loss_scale_from_json(const nlohmann::json& json) {
  using checkpoints::count_of;
  return {.dynamic = json.at("dynamic"),
          .value = json.at("value"),
          .good_steps = count_of(json, "good_steps"),
          .bad_steps = count_of(json, "bad_steps"),
          .overflows = count_of(json, "overflows"),
          .overflows_in_a_row = count_of(json, "overflows_in_a_row")};
}

}  // namespace

checkpoints::State network_state(const engine::Setup& setup,
                                 const std::string& stage,
                                 const Position& position,
                                 const RunRecord& record) {
  const auto& model = setup.model;
  require_finite(setup, position);
  checkpoints::State state;
  state.scalars = {{"stage", stage},
                   {"step", position.step},
                   {"position", to_json(position)},
                   {"steps_per_epoch", setup.data.steps_per_epoch()},
                   {"layout", nlohmann::json::parse(engine::carried_layout(model))}};
  if (model.loss_scale.active()) state.scalars["loss_scale"] = to_json(model.loss_scale.state());
  state.scalars.update(facts_of(setup, record));
  state.vectors["weights"] = engine::full_vector(setup, model.flat.weights);
  state.vectors["buffers"] = models::to_vector(model.flat.buffers);
  state.counters["counters"] = models::to_integers(model.flat.counters);
  return state;
}

void require_equal_weights(const engine::Setup& setup, const Position& position) {
  if (setup.communicator->size() == 1) return;
  const auto all = setup.communicator->gather(formatted(
      "{} {}", engine::replicated_digest(setup), models::digest_of(setup.model.flat.buffers)));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    require_environment(all[rank] == all.front(),
                        "[training] the weights of rank {} differ from those of rank 0 after step "
                        "{}; earlier files are kept",
                        rank,
                        position.step);
  }
}

Position restore_network(const checkpoints::State& saved,
                         const std::string& stage,
                         engine::Setup& setup) {
  const auto& scalars = saved.scalars;
  auto& model = setup.model;
  require(scalars.at("stage") == stage,
          "[state] needs a state of {}, received a state of {}",
          stage,
          scalars.at("stage").get<std::string>());
  const auto data = scalars.value("data", nlohmann::json());
  engine::require_same_classes(data, setup.data.record, "state");  // they decide the last layer
  const auto difference = layout::first_difference(model.flat.layout, scalars.at("layout").dump());
  require(difference.empty(), "[state] the state belongs to another model: {}", difference);
  engine::require_same_frozen(model, scalars.at("layout").dump(), "the state");
  const auto different = engine::other_samples(data, setup.data.record);
  require(different.empty(),
          "[state] a resumed run needs the data of its first start, but {}; to train on other "
          "data, choose another --output",
          different);
  engine::keep_pixels(data, setup.data.record);
  require(scalars.at("steps_per_epoch") == setup.data.steps_per_epoch(),
          "[state] the state has {} steps per epoch, but the data and the batch size now give {}; "
          "restore the data and the batch size, or choose another --output",
          scalars.at("steps_per_epoch").get<std::int64_t>(),
          setup.data.steps_per_epoch());
  models::assign(model.flat,
                 saved.vectors.at("weights"),
                 saved.vectors.at("buffers"),
                 saved.counters.at("counters"));
  if (scalars.contains("loss_scale"))
    model.loss_scale.restore(loss_scale_from_json(scalars.at("loss_scale")));
  const auto position = position_from_json(scalars.at("position"));
  require_environment(
      position.step_in_epoch <= setup.data.steps_per_epoch(),
      "[state] the state is damaged: step {} is after the end of an epoch of {} steps",
      position.step_in_epoch,
      setup.data.steps_per_epoch());
  return position;
}

PendingSnapshot start_snapshot(const engine::Setup& setup,
                               const Position& position,
                               const RunRecord& record) {
  const auto& flat = setup.model.flat;
  checkpoints::Snapshot known{.epoch = position.epoch + (position.step_in_epoch > 0 ? 1 : 0),
                              .step = position.step,
                              .train_loss = position.epoch_sums.mean_loss(),
                              .layout_json = engine::carried_layout(setup.model),
                              .layout_hash = flat.layout.hash,
                              .run_json = facts_of(setup, record).dump()};
  const bool sharded = flat.layout.sharded();
  if (sharded) known.weights = engine::full_vector(setup, flat.weights);  // by all ranks together
  if (setup.communicator->rank() != 0) return {};
  return [known = std::move(known),
          layout = flat.layout,
          weights = sharded ? engine::HostCopy() : engine::copy_on_side_stream(flat.weights),
          buffers = engine::copy_on_side_stream(flat.buffers),
          counters = engine::copy_on_side_stream(flat.counters)]() mutable {
    if (weights.exists()) known.weights = models::to_file(layout, weights.get());
    known.buffers = models::to_vector(buffers.get());
    known.counters = models::to_integers(counters.get());
    require_finite({known.weights, known.buffers}, known.step);
    return std::move(known);
  };
}

nlohmann::json to_json(const engine::LossScaleState& scale) {
  return {{"dynamic", scale.dynamic},
          {"value", scale.value},
          {"good_steps", scale.good_steps},
          {"bad_steps", scale.bad_steps},
          {"overflows", scale.overflows},
          {"overflows_in_a_row", scale.overflows_in_a_row}};
}

void wait_for(checkpoints::BackgroundWriter& writer, const engine::Setup& setup) {
  on_rank_0(*setup.communicator, [&] { writer.wait(); });
}

std::optional<checkpoints::State> shared_state(
    const engine::Setup& setup, const std::function<std::optional<checkpoints::State>()>& read) {
  auto& communicator = *setup.communicator;
  const auto& layout = setup.model.flat.layout;
  std::optional<checkpoints::State> state;
  const auto header = on_rank_0(communicator, [&] {
    state = read();
    return state ? header_of(*state) : nlohmann::json();
  });
  if (header.is_null() || communicator.size() == 1) return state;
  if (!state) state = checkpoints::State{.scalars = header.at("scalars")};
  for (const auto& [name, size] : header.at("vectors").items()) {
    // BatchNorm's buffers, the averages of them (ema_buffers) and frozen values have no columns.
    const bool by_column =
        !name.ends_with("buffers") && name != "frozen" && size == layout.global_size;
    if (layout.sharded() && by_column) {
      share_parts(setup, state->vectors[name]);
    } else {
      share(communicator, state->vectors[name], size);
    }
  }
  for (const auto& [name, size] : header.at("counters").items())
    share(communicator, state->counters[name], size);
  return state;
}

std::optional<checkpoints::State> newest_state(const checkpoints::StateStore& states,
                                               const engine::Setup& setup,
                                               Console& console) {
  return shared_state(setup, [&] {
    std::vector<std::string> skipped;
    auto state = states.newest_valid(&skipped);
    // Starting over would cut the curve and, save by save, delete what may still be rescued.
    require_environment(state.has_value() || skipped.empty(),
                        "[state] no resume state of this run can be read ({}); restore a state "
                        "from a backup, or choose another --output",
                        skipped.empty() ? "" : skipped.front());
    for (const auto& line : skipped) console.warn("skipped a damaged state: " + line);
    return state;
  });
}

checkpoints::State read_run_state(const std::filesystem::path& path,
                                  const checkpoints::VectorChoice& choose) {
  if (checkpoints::is_state(path)) return checkpoints::read_state(path, choose);
  require(std::filesystem::is_directory(path / "checkpoints"),
          "[state] {} is neither a run folder nor a resume state",
          path);
  std::vector<std::string> skipped;
  auto state = checkpoints::StateStore(path / "checkpoints", 1).newest_valid(&skipped, choose);
  require(state.has_value() || !skipped.empty(), "[state] {} has no state", path);
  require_environment(
      skipped.empty(),
      "[state] the newest state of {} cannot be read: {}; give the path of an older state",
      path,
      skipped.empty() ? "" : skipped.front());
  return std::move(*state);
}

}  // namespace dimred::run
