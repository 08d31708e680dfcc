#include "stage2/options.h"

#include "support/errors.h"

namespace dimred::stage2 {

using namespace method;

namespace {

/// A choice that is the preset's unless it is made.
template <class Enum>
void add_preset_choice(OptionTable& table,
                       const std::string& name,
                       std::optional<Enum>* field,
                       const std::string& help,
                       const std::vector<std::pair<std::string, Enum>>& names) {
  std::vector<std::pair<std::string, std::optional<Enum>>> all{{"preset", std::nullopt}};
  for (const auto& [text, value] : names) all.emplace_back(text, value);
  table.add_choice(name, field, help, all);
}

const std::vector<std::pair<std::string, Decay>> decays{{"constant", Decay::constant},
                                                        {"linear", Decay::linear},
                                                        {"cosine", Decay::cosine},
                                                        {"step", Decay::step}};

std::vector<std::pair<std::string, std::string>> rule_names() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [name, rule] : update_rules()) names.emplace_back(name, name);
  return names;
}

void add_checkpoint_options(OptionTable& table, Options& options) {
  table.add("checkpoint",
            &options.checkpoint,
            "where it starts: a run folder, a state, a snapshot or a safetensors file");
  table.add("pca_mat",
            &options.pca_mat,
            "projection matrix to reuse, k x M .npy; without one it is made from the snapshots");
  table.add(
      "snapshots",
      &options.snapshots,
      "folder of snapshots, or a list of them (.txt, one a line), for the matrix and for start "
      "= mean, soup or first (default: those of the checkpoint's run)");
  table.add(
      "preset",
      &options.preset,
      "robust-mean and robust (ours), mindspore-latest, mindspore-first, dldr, psgd, twa, sgd, "
      "swa, ema or schedule-free; it sets every constant below that is not given");
}

/// The matrix that is made where none is given, and how it is held.
void add_basis_options(OptionTable& table, Options& options) {
  table.add("n_component",
            &options.n_component,
            "components k (default: the preset's, or all of a --pca_mat)",
            at_least(1));
  add_preset_choice<BasisKind>(
      table,
      "basis",
      &options.basis,
      "matrix made where none is given, as `dimred pca --kind`; none: no subspace",
      {{"pca", BasisKind::pca},
       {"span", BasisKind::span},
       {"random", BasisKind::random},
       {"shuffled", BasisKind::shuffled},
       {"none", BasisKind::none}});
  table.add_choice("basis_blocks",
                   &options.basis_blocks,
                   "of that matrix: one for all columns, or k components of each layer",
                   pca::blocks_names());
  table.add("basis_seed",
            &options.basis_seed,
            "of basis = random and shuffled (default: the run's seed)",
            at_least(0));
  table.add("snapshot_from",
            &options.range.from,
            "first epoch whose snapshots that matrix is made of; 0: the first",
            at_least(0));
  table.add("snapshot_to", &options.range.to, "last such epoch; 0: the last", at_least(0));
  table.add(
      "snapshot_skip", &options.range.skip, "snapshots left out after each one taken", at_least(0));
  table.add_choice(
      "basis_dtype",
      &options.basis_dtype,
      "P in memory; bfloat16 is half the memory and half the bytes read a step",
      {{"float32", pca::BasisDtype::float32}, {"bfloat16", pca::BasisDtype::bfloat16}});
  table.add_choice("device_algebra",
                   &options.device_algebra,
                   "products with P on a CUDA device: ATen's, or our own kernels, which no device "
                   "has shown to be faster",
                   {{"aten", DeviceAlgebra::aten}, {"fused", DeviceAlgebra::fused}});
}

void add_run_options(OptionTable& table, Options& options) {
  table.add_choice("start",
                   &options.start,
                   "weights to start from (preset: the preset's)",
                   {{"preset", Start::preset},
                    {"last", Start::last},
                    {"mean", Start::mean},
                    {"soup", Start::soup},
                    {"first", Start::first},
                    {"file", Start::file}});
  table.add("start_latest",
            &options.start_latest,
            "of start = mean and soup: only the latest so many snapshots; 0: all (default: the "
            "preset's for its own start, else all)",
            at_least(0));
  table.add("start_file", &options.start_file, "the weights of start = file");
  table.add(
      "budget",
      &options.budget,
      "instead of epochs: ends when forward + 2 backward passes are those of so many epochs of "
      "plain SGD; 0: epochs",
      at_least(0));
  table.add_choice(
      "train_on",
      &options.train_on,
      "the training set, or half of the validation split (the other half stays)",
      {{"train", training::TrainOn::train}, {"validation", training::TrainOn::validation}});
}

/// The rows of a method's numbers, each the preset's unless it is given.
void add_numbers(OptionTable& table, Options& options) {
  auto any = presets().front();
  for_each_hyperparameter(any,
                          [&](const char* name, auto& value, const Range& range, const char* help) {
                            if constexpr (std::is_same_v<decltype(value), double&>) {
                              table.add(name, &options.numbers[name], help, range);
                            } else {
                              table.add(name, &options.whole_numbers[name], help, range);
                            }
                          });
}

void add_method_options(OptionTable& table, Options& options) {
  add_preset_choice<MethodKind>(
      table,
      "method",
      &options.method,
      "quasi-newton with a line search, psgd (SGD in the subspace), sgd (in all weights)",
      method_names());
  add_numbers(table, options);
  add_preset_choice(table, "update_rule", &options.update_rule, "how H learns", rule_names());
  add_preset_choice<Curvature>(
      table,
      "curvature",
      &options.curvature,
      "y from two batches, or from the same one before and after the step, Powell-damped (one more "
      "gradient)",
      {{"between", Curvature::between}, {"same", Curvature::same}});
  add_preset_choice<bool>(table,
                          "weight_decay_of",
                          &options.weight_decay_all,
                          "which parameters decay: weights, or biases and BatchNorm's, too",
                          {{"weights", false}, {"all", true}});
  add_preset_choice(table,
                    "alpha_schedule",
                    &options.alpha_schedule,
                    "how alpha falls over the budget or epochs",
                    decays);
  add_preset_choice(
      table,
      "schedule",
      &options.schedule,
      "how learning_rate falls over the budget or epochs; step: a tenth at first_drop and 3/4",
      decays);
  add_preset_choice<AverageKind>(
      table,
      "average",
      &options.average,
      "mean of the iterates as the result: over steps, exponential, or of schedule-free SGD",
      {{"none", AverageKind::none},
       {"uniform", AverageKind::uniform},
       {"ema", AverageKind::ema},
       {"schedule_free", AverageKind::schedule_free}});
}

}  // namespace

void add_options(OptionTable& table, Options& options) {
  table.group("Stage 2");
  add_checkpoint_options(table, options);
  add_basis_options(table, options);
  add_run_options(table, options);
  table.group("Method");
  add_method_options(table, options);
  table.group("Stage 2");
  table.add_choice("trial_batchnorm",
                   &options.trial_batchnorm_moving,
                   "running statistics after a trial: restored, or moving (as published)",
                   {{"restored", false}, {"moving", true}});
  table.add("recalibrate_batchnorm",
            &options.recalibrate_batchnorm,
            "estimate BatchNorm's running statistics anew at the end");
  table.add("keep_checkpoints", &options.keep_checkpoints, "resume states that stay", at_least(1));
}

namespace {

/// They would mean nothing. The preset's own basis may be named: every config.toml does.
void refuse_options_of_a_new_matrix(const Options& options, BasisKind preset_basis) {
  const std::pair<const char*, bool> set[] = {
      {"basis", options.basis.value_or(preset_basis) != preset_basis},
      {"basis_blocks", options.basis_blocks != pca::Blocks::whole},
      {"basis_seed", options.basis_seed.has_value()},
      {"snapshot_from", options.range.from != 0},
      {"snapshot_to", options.range.to != 0},
      {"snapshot_skip", options.range.skip != 0}};
  for (const auto& [name, is_set] : set)
    require(!is_set, "[stage2] {} is of a matrix made here, but --pca_mat gives one", name);
}

}  // namespace

namespace {

/// Replaces a preset's constant where the user gave a value, and writes what holds back.
template <class Wish, class Value>
void apply_override(std::optional<Wish>& wish, Value& constant) {
  if (wish) constant = *wish;
  wish = constant;
}

/// The preset with all that the user gave in its place.
Preset with_overrides(Preset chosen, Options& options) {
  for_each_hyperparameter(chosen, [&](const char* name, auto& value, const Range&, const char*) {
    if constexpr (std::is_same_v<decltype(value), double&>) {
      apply_override(options.numbers[name], value);
    } else {
      apply_override(options.whole_numbers[name], value);
    }
  });
  auto& method = chosen.method;
  apply_override(options.method, method.kind);
  apply_override(options.update_rule, method.update_rule);
  apply_override(options.curvature, method.curvature);
  apply_override(options.schedule, method.schedule);
  apply_override(options.alpha_schedule, method.alpha_schedule);
  apply_override(options.average, chosen.average.kind);
  apply_override(options.weight_decay_all, chosen.penalty.weight_decay_all);
  apply_override(options.basis, chosen.basis);
  return chosen;
}

std::string name_of(MethodKind kind) {
  return method_names().at(static_cast<std::size_t>(kind)).first;
}

}  // namespace

Resolved resolve(Options& options) {
  const auto& chosen = preset(options.preset);
  const bool given = !options.pca_mat.empty();
  if (given) refuse_options_of_a_new_matrix(options, chosen.basis);
  const bool own_method = !options.method || *options.method == chosen.method.kind;
  const auto resolved = with_overrides(chosen, options);
  const bool all = resolved.basis == BasisKind::span && !options.n_component;
  const auto components = options.n_component.value_or(all ? 0 : chosen.components);
  if (!all) options.n_component = components;
  const bool own_start = options.start == Start::preset;
  if (own_start) options.start = chosen.start;
  options.start_latest = options.start_latest.value_or(own_start ? chosen.start_latest : 0);
  require((options.start == Start::file) == !options.start_file.empty(),
          "[stage2] start = file and --start_file need each other");
  require(
      *options.start_latest == 0 || options.start == Start::mean || options.start == Start::soup,
      "[stage2] start_latest needs start = mean or soup");
  require(resolved.basis != BasisKind::none || !given,
          "[stage2] preset {} has no subspace and takes no --pca_mat",
          options.preset);
  require(resolved.basis != BasisKind::none || resolved.method.kind != MethodKind::psgd,
          "[stage2] method = psgd needs a basis");
  require(resolved.average.kind != AverageKind::schedule_free ||
              (resolved.method.kind == MethodKind::sgd && resolved.method.rates.momentum == 0),
          "[stage2] average = schedule_free needs method = sgd and momentum = 0");
  validate(resolved);
  return {.train = {.label = own_method ? options.preset : name_of(resolved.method.kind),
                    .budget = options.budget,
                    .method = resolved.method,
                    .penalty = resolved.penalty,
                    .average = resolved.average,
                    .trial_batchnorm_moving = options.trial_batchnorm_moving,
                    .recalibrate_batchnorm = options.recalibrate_batchnorm,
                    .keep_checkpoints = options.keep_checkpoints},
          .basis = resolved.basis,
          .components = components,
          .start = options.start};
}

}  // namespace dimred::stage2
