#include "training/weights/transfer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/name_patterns.h"
#include "support/atomic_file.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/text.h"
#include "support/utf8.h"
#include "training/state.h"
#include "training/weights/frozen_file.h"
#include "training/weights/full_vector.h"
#include "training/weights/matching.h"
#include "training/weights/named_weights.h"

namespace dimred::training {
namespace {

namespace fs = std::filesystem;

models::NameSelection selection_of(const Model& model, const TransferOptions& options) {
  return {{"checkpoint_include_patterns", options.checkpoint_include_patterns, model.logits},
          {"checkpoint_exclude_patterns", options.checkpoint_exclude_patterns, model.logits}};
}

/// The names of the network's tensors and of the file's, which a list may name, too.
std::vector<std::string> names_to_copy(const Model& model, const checkpoints::WeightsFile& file) {
  auto names = texts_of(models::all_tensors(*model.objective), &models::NamedTensor::name);
  for (const auto& tensor : file.tensors) names.push_back(tensor.name);
  return names;
}

/// Frozen, and still as drawn.
std::vector<std::string> frozen_as_drawn(const Model& model, const Matching& matching) {
  std::vector<std::string> names;
  for (const auto& entry : model.flat.frozen_layout.entries) {
    const auto& excluded = matching.excluded;
    if (std::ranges::find(excluded, entry.name) != excluded.end()) names.push_back(entry.name);
  }
  return names;
}

/// The vectors as they are to be, of weights [M] as drawn; what happened, in its scalars.
checkpoints::State initial_state(const Model& model,
                                 const TransferOptions& options,
                                 std::vector<float> drawn) {
  const auto file = named_weights(model, options.initialize_from);
  const auto selected = selection_of(model, options);
  const auto names = names_to_copy(model, file);
  selected.include.require_matches(names);
  selected.exclude.require_matches(names);
  auto matching = match(model, file, selected, std::move(drawn));
  require(matching.problems.empty(),
          "[initialize_from] {} comes from another model: {}; skip tensors with "
          "--checkpoint_exclude_patterns (logits is the last layer)",
          options.initialize_from,
          first_problems(matching));
  require(!matching.loaded.empty(),
          "[initialize_from] checkpoint_include_patterns and checkpoint_exclude_patterns leave "
          "nothing of {} to load",
          options.initialize_from);
  auto state = std::move(matching.state);
  state.scalars = {{"source", utf8_text(options.initialize_from.string())},
                   {"format", file.format},
                   {"remarks", checkpoints::remarks_on(file)},
                   {"loaded", matching.loaded},
                   {"excluded", matching.excluded},
                   {"unused", matching.unused},
                   {"unfolded", matching.unfolded},
                   {"frozen_as_drawn", frozen_as_drawn(model, matching)}};
  return state;
}

/// The first few names of a list.
std::string some_of(const nlohmann::json& names) {
  constexpr std::size_t shown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, names.size()); ++i)
    text += (i == 0 ? ": " : ", ") + names[i].get<std::string>();
  return text + (names.size() > shown ? ", ..." : "");
}

void report(const nlohmann::json& summary, Console& console) {
  console.line(formatted("initialized from {} ({}): {} loaded, {} left as drawn{}",
                         summary.at("source").get<std::string>(),
                         summary.at("format").get<std::string>(),
                         counted(std::ssize(summary.at("loaded")), "tensor"),
                         summary.at("excluded").size(),
                         some_of(summary.at("excluded"))));
  if (const std::string remarks = summary.at("remarks"); !remarks.empty()) console.line(remarks);
  if (const auto& unused = summary.at("unused"); !unused.empty())
    console.line(formatted(
        "unused: {} of the file{}", counted(std::ssize(unused), "tensor"), some_of(unused)));
  if (const auto& adapter = summary.at("unfolded"); !adapter.empty())
    console.warn(
        formatted("the file's adapter is not folded into the weights{}", some_of(adapter)));
  if (const auto& drawn = summary.at("frozen_as_drawn"); !drawn.empty())
    console.warn(
        formatted("these parameters keep random values, because they are frozen and not loaded{}",
                  some_of(drawn)));
}

}  // namespace

void add_transfer_options(OptionTable& table, TransferOptions& options) {
  table.group("Transfer");
  table.add("initialize_from",
            &options.initialize_from,
            "start from these weights: run, state, snapshot, newest snapshot of a folder, "
            "safetensors, .pt or .ckpt");
  table
      .add("checkpoint_include_patterns",
           &options.checkpoint_include_patterns,
           "load only tensors whose names match these comma-separated regular expressions "
           "(default: all)")
      .needs(has_value("initialize_from"));
  table
      .add("checkpoint_exclude_patterns",
           &options.checkpoint_exclude_patterns,
           "skip tensors whose names match; they keep their random initial values")
      .needs(has_value("initialize_from"));
}

void initialize(Setup& setup,
                const TransferOptions& options,
                const fs::path& folder,
                Console& console) {
  auto drawn = full_vector(setup, setup.model.flat.weights);
  const auto state = shared_state(
      setup, [&] { return std::optional(initial_state(setup.model, options, std::move(drawn))); });
  put(setup.model, *state);
  report(state->scalars, console);
  if (setup.communicator->rank() == 0 && !folder.empty())
    write_file_atomically(folder / initialization_file_name, state->scalars.dump(2) + "\n");
}

void begin(Setup& setup,
           const TransferOptions& options,
           const fs::path& folder,
           const fs::path& resumed_from,
           Console& console) {
  const auto& frozen = setup.model.flat.frozen_layout;
  const bool fresh = resumed_from.empty();
  if (!fresh) load_frozen(setup, resumed_from);
  if (fresh && !options.initialize_from.empty()) {
    initialize(setup, options, folder, console);
  } else if (fresh && !frozen.entries.empty()) {
    console.warn(
        "frozen parameters keep the random values of the new network, because initialize_from is "
        "not given");
  }
  if (resumed_from != folder) keep_frozen(setup, folder);
  if (frozen.entries.empty()) return;
  console.line(
      formatted("trainable: {} in {}; frozen: {} in {}, with their BatchNorm layers' running "
                "statistics",
                counted(setup.model.flat.layout.global_size, "parameter"),
                counted(std::ssize(setup.model.flat.layout.entries), "tensor"),
                counted(frozen.file_size, "value"),
                counted(std::ssize(frozen.entries), "tensor")));
}

}  // namespace dimred::training
