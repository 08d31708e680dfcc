#include "run/weights/transfer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/weights/full_vector.h"
#include "models/name_patterns.h"
#include "run/state.h"
#include "run/weights/frozen_file.h"
#include "run/weights/matching.h"
#include "run/weights/named_weights.h"
#include "support/atomic_file.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/text.h"
#include "support/utf8.h"

namespace dimred::run {
namespace {

namespace fs = std::filesystem;

models::NameSelection selection_of(const engine::Model& model, const TransferOptions& options) {
  return {{"checkpoint_include_patterns", options.checkpoint_include_patterns, model.logits},
          {"checkpoint_exclude_patterns", options.checkpoint_exclude_patterns, model.logits}};
}

/// The names of the network's tensors and of the file's, which a list may name, too.
std::vector<std::string> names_to_copy(const engine::Model& model,
                                       const checkpoints::WeightsFile& file) {
  auto names = texts_of(models::all_tensors(*model.objective), &models::NamedTensor::name);
  for (const auto& tensor : file.tensors) names.push_back(tensor.name);
  return names;
}

/// Frozen, and still as drawn.
std::vector<std::string> frozen_as_drawn(const engine::Model& model, const Matching& matching) {
  std::vector<std::string> names;
  for (const auto& entry : model.flat.frozen_layout.entries) {
    const auto& excluded = matching.excluded;
    if (std::ranges::find(excluded, entry.name) != excluded.end()) names.push_back(entry.name);
  }
  return names;
}

/// How the last layer, if it is loaded, is of other classes than the data's; else empty.
std::string other_classes(const engine::Setup& setup,
                          const checkpoints::WeightsFile& file,
                          const Matching& matching) {
  const auto& logits = setup.model.logits;
  if (file.classes.empty() || logits.empty()) return {};
  const models::NamePatterns last("logits", "logits", logits);
  const auto is_last = [&](const std::string& name) { return last.matches(name); };
  if (std::ranges::none_of(matching.loaded, is_last)) return {};
  auto names = setup.data.train->class_names();
  for (auto& name : names) name = utf8_text(name);
  const auto [was, now] = std::ranges::mismatch(file.classes, names);
  if (was == file.classes.end() || now == names.end()) return {};
  return formatted("label {} was {} and is now {}",
                   was - file.classes.begin(),
                   printable(*was),
                   printable(*now));
}

/// The vectors as they are to be, of weights [M] as drawn; what happened, in its scalars.
checkpoints::State initial_state(const engine::Setup& setup,
                                 const TransferOptions& options,
                                 std::vector<float> drawn) {
  const auto& model = setup.model;
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
          "[initialize_from] checkpoint_include_patterns and checkpoint_exclude_patterns leave no "
          "tensor of {} to load",
          options.initialize_from);
  auto state = std::move(matching.state);
  state.scalars = {{"source", utf8_text(options.initialize_from.string())},
                   {"format", file.format},
                   {"remarks", checkpoints::remarks_on(file)},
                   {"loaded", matching.loaded},
                   {"excluded", matching.excluded},
                   {"unused", matching.unused},
                   {"unfolded", matching.unfolded},
                   {"other_classes", other_classes(setup, file, matching)},
                   {"frozen_as_drawn", frozen_as_drawn(model, matching)}};
  return state;
}

/// The first few names of a list.
std::string some_of(const nlohmann::json& names) {
  return names.empty() ? "" : ": " + first_names(names.get<std::vector<std::string>>(), 4);
}

void report(const nlohmann::json& summary, Console& console) {
  console.line(formatted("initialized from {} ({}): {} loaded, {} with random values{}",
                         summary.at("source").get<std::string>(),
                         summary.at("format").get<std::string>(),
                         counted(std::ssize(summary.at("loaded")), "tensor"),
                         summary.at("excluded").size(),
                         some_of(summary.at("excluded"))));
  if (const std::string remarks = summary.at("remarks"); !remarks.empty()) console.line(remarks);
  if (const auto& unused = summary.at("unused"); !unused.empty())
    console.line(formatted(
        "unused: {} of the file{}", counted(std::ssize(unused), "tensor"), some_of(unused)));
  if (const std::string other = summary.at("other_classes"); !other.empty())
    console.warn(
        formatted("the loaded last layer was trained for other classes: {}; leave the layer out "
                  "with --checkpoint_exclude_patterns logits",
                  other));
  if (const auto& adapter = summary.at("unfolded"); !adapter.empty())
    console.warn(
        formatted("the adapter of the file is not merged into the weights{}", some_of(adapter)));
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
            "start from these weights: run, state, snapshot, weight file, checkpoint folder or "
            "index, or newest checkpoint of a folder, list (.txt) or pattern");
  table
      .add("checkpoint_include_patterns",
           &options.checkpoint_include_patterns,
           "load only tensors whose names match these comma-separated regular expressions "
           "(default: all)")
      .needs(has_value("initialize_from"));
  table
      .add("checkpoint_exclude_patterns",
           &options.checkpoint_exclude_patterns,
           "skip tensors whose names match these comma-separated regular expressions; these "
           "tensors keep random initial values")
      .needs(has_value("initialize_from"));
}

void initialize(engine::Setup& setup,
                const TransferOptions& options,
                const fs::path& folder,
                Console& console) {
  auto drawn = engine::full_vector(setup, setup.model.flat.weights);
  const auto state = shared_state(
      setup, [&] { return std::optional(initial_state(setup, options, std::move(drawn))); });
  put(setup.model, *state);
  engine::require_variances(setup.model,
                            formatted("[initialize_from] {}", options.initialize_from));
  report(state->scalars, console);
  if (setup.communicator->rank() == 0 && !folder.empty())
    write_file_atomically(folder / initialization_file_name, state->scalars.dump(2) + "\n");
}

void begin(engine::Setup& setup,
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

}  // namespace dimred::run
