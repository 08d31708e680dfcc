#include "stage2/options.h"

#include "support/errors.h"

namespace dimred::stage2 {
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

const std::vector<std::pair<std::string, Decay>>& decays() {
  static const std::vector<std::pair<std::string, Decay>> list{{"constant", Decay::constant},
                                                               {"linear", Decay::linear},
                                                               {"cosine", Decay::cosine},
                                                               {"step", Decay::step}};
  return list;
}

void add_start_options(OptionTable& table, Options& options) {
  table.add("checkpoint",
            &options.checkpoint,
            "where it starts: a run folder, a state, a snapshot or a safetensors file");
  table.add("pca_mat",
            &options.pca_mat,
            "projection matrix to reuse, k x M .npy; without one it is made from the snapshots");
  table.add("snapshots",
            &options.snapshots,
            "snapshots for the matrix and for start = mean, soup or first (default: those of the "
            "checkpoint's run)");
  table.add(
      "preset",
      &options.preset,
      "robust (ours), mindspore-latest, mindspore-first, dldr, psgd, twa, sgd, swa or ema; it "
      "sets every constant below that is not given");
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
            "of start = mean and soup: only the latest so many snapshots; 0: all",
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

void add_search_options(OptionTable& table, Options& options) {
  table.add(
      "rho", &options.rho, "contraction of the step size after a failed trial", between_open(0, 1));
  table.add("sigma",
            &options.sigma,
            "sufficient decrease: loss <= loss + sigma t slope",
            between_open(0, 1));
  table.add("trials", &options.trials, "step sizes tried: 1, rho, rho^2, ...", between(1, 100));
  table.add("gamma",
            &options.gamma,
            "residual momentum: m <- gamma m + r",
            {.low = 0, .high = 1, .high_open = true});
  table.add("alpha", &options.alpha, "weight of the residual momentum in the step", at_least(0));
  table.add("curvature_floor",
            &options.curvature_floor,
            "an update of H needs s'y above this",
            at_least(0));
  table.add("relative_curvature_floor",
            &options.relative_curvature_floor,
            "and s'y / (|s| |y|) above this",
            {.low = 0, .high = 1, .high_open = true});
  add_preset_choice<Curvature>(
      table,
      "curvature",
      &options.curvature,
      "y from two batches, or from the same one before and after the step, Powell-damped (one more "
      "gradient)",
      {{"between", Curvature::between}, {"same", Curvature::same}});
}

void add_method_options(OptionTable& table, Options& options) {
  add_preset_choice<MethodKind>(
      table,
      "method",
      &options.method,
      "quasi-newton with a line search, psgd (SGD in the subspace), sgd (in all weights)",
      method_names());
  add_search_options(table, options);
  add_preset_choice(table,
                    "alpha_schedule",
                    &options.alpha_schedule,
                    "how alpha falls over the budget or epochs",
                    decays());
  table.add("learning_rate", &options.learning_rate, "of psgd and sgd", positive());
  table.add(
      "momentum", &options.momentum, "of psgd and sgd", {.low = 0, .high = 1, .high_open = true});
  add_preset_choice(
      table,
      "schedule",
      &options.schedule,
      "how learning_rate falls over the budget or epochs; step: a tenth at 1/2 and 3/4",
      decays());
  table.add("weight_decay",
            &options.weight_decay,
            "added to loss and gradient of every method, not on biases and BatchNorm",
            at_least(0));
  table.add("sam_radius",
            &options.sam_radius,
            "the loss at w + radius g / |g| instead (SAM); one more gradient",
            at_least(0));
  add_preset_choice<AverageKind>(
      table,
      "average",
      &options.average,
      "mean of the iterates as the result: over steps, or exponential",
      {{"none", AverageKind::none}, {"uniform", AverageKind::uniform}, {"ema", AverageKind::ema}});
  table.add("average_from",
            &options.average_from,
            "part of the run before the first iterate that counts",
            {.low = 0, .high = 1, .high_open = true});
  table.add("ema_decay",
            &options.ema_decay,
            "of average = ema, a step",
            {.low = 0, .high = 1, .high_open = true});
}

}  // namespace

void add_options(OptionTable& table, Options& options) {
  table.group("Stage 2");
  add_start_options(table, options);
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
    require(!is_set, "stage2", name, " is of a matrix made here, but --pca_mat gives one");
}

}  // namespace

Resolved resolve(Options& options) {
  const auto& chosen = preset(options.preset);
  const bool given = !options.pca_mat.empty();
  if (given) refuse_options_of_a_new_matrix(options, chosen.basis);
  const auto settle = [](auto& wish, auto& constant) {
    if (wish) constant = *wish;
    wish = constant;
  };
  const bool own_method = !options.method || *options.method == chosen.method;
  Resolved resolved{.train = {.label = own_method ? options.preset : name_of(*options.method),
                              .budget = options.budget,
                              .method = {.kind = chosen.method,
                                         .step = chosen.step,
                                         .rates = chosen.rates,
                                         .schedule = chosen.schedule},
                              .penalty = chosen.penalty,
                              .average = chosen.average,
                              .trial_batchnorm_moving = options.trial_batchnorm_moving,
                              .recalibrate_batchnorm = options.recalibrate_batchnorm,
                              .keep_checkpoints = options.keep_checkpoints},
                    .basis = chosen.basis,
                    .components = chosen.components};
  auto& [kind, step, rates, schedule, alpha_schedule] = resolved.train.method;
  settle(options.method, kind);
  settle(options.rho, step.search.rho);
  settle(options.sigma, step.search.sigma);
  settle(options.trials, step.search.trials);
  settle(options.gamma, step.residual.gamma);
  settle(options.alpha, step.residual.alpha);
  settle(options.curvature_floor, step.bfgs.curvature_floor);
  settle(options.relative_curvature_floor, step.bfgs.relative_curvature_floor);
  settle(options.curvature, step.curvature);
  settle(options.learning_rate, rates.learning_rate);
  settle(options.momentum, rates.momentum);
  settle(options.schedule, schedule);
  settle(options.alpha_schedule, alpha_schedule);
  settle(options.weight_decay, resolved.train.penalty.weight_decay);
  settle(options.sam_radius, resolved.train.penalty.sam_radius);
  settle(options.average, resolved.train.average.kind);
  settle(options.average_from, resolved.train.average.from);
  settle(options.ema_decay, resolved.train.average.decay);
  settle(options.basis, resolved.basis);
  const bool all = resolved.basis == BasisKind::span && !options.n_component;
  resolved.components = options.n_component.value_or(all ? 0 : chosen.components);
  if (!all) options.n_component = resolved.components;
  if (options.start == Start::preset) options.start = chosen.start;
  resolved.start = options.start;
  require((options.start == Start::file) == !options.start_file.empty(),
          "stage2",
          "start = file and --start_file need each other");
  require(options.start_latest == 0 || options.start == Start::mean || options.start == Start::soup,
          "stage2",
          "start_latest needs start = mean or soup");
  require(resolved.basis != BasisKind::none || !given,
          "stage2",
          "preset ",
          options.preset,
          " has no subspace and takes no --pca_mat");
  require(resolved.basis != BasisKind::none || kind != MethodKind::psgd,
          "stage2",
          "method = psgd needs a basis");
  validate(step);
  validate(rates);
  validate(resolved.train.penalty);
  validate(resolved.train.average);
  return resolved;
}

}  // namespace dimred::stage2
