#include "stage2/options.h"

#include "support/errors.h"

namespace dimred::stage2 {

void add_options(OptionTable& table, Options& options) {
  table.group("Stage 2");
  table.add("checkpoint",
            &options.checkpoint,
            "where it starts: a run folder, a state, a snapshot or a safetensors file");
  table.add("pca_mat",
            &options.pca_mat,
            "projection matrix to reuse, k x M .npy; without one the PCA runs first");
  table.add(
      "snapshots",
      &options.snapshots,
      "snapshots for the PCA and for start mean or first (default: those of the checkpoint's run)");
  table.add("preset",
            &options.preset,
            "robust (ours), mindspore-latest, mindspore-first or dldr; it sets every constant "
            "below that is not given");
  table.add("n_component",
            &options.n_component,
            "components k (default: the preset's, or all of a --pca_mat)",
            at_least(1));
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
                    {"first", Start::first},
                    {"file", Start::file}});
  table.add("start_file", &options.start_file, "the weights of start = file");
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
  table.add_choice("trial_batchnorm",
                   &options.trial_batchnorm_moving,
                   "running statistics after a trial: restored, or moving (as published)",
                   {{"restored", false}, {"moving", true}});
  table.add("recalibrate_batchnorm",
            &options.recalibrate_batchnorm,
            "estimate BatchNorm's running statistics anew at the end");
  table.add("keep_checkpoints", &options.keep_checkpoints, "resume states that stay", at_least(1));
}

Resolved resolve(Options& options) {
  const auto& chosen = preset(options.preset);
  auto step = chosen.step;
  const auto settle = [](auto& wish, auto& constant) {
    if (wish) constant = *wish;
    wish = constant;
  };
  settle(options.rho, step.search.rho);
  settle(options.sigma, step.search.sigma);
  settle(options.trials, step.search.trials);
  settle(options.gamma, step.residual.gamma);
  settle(options.alpha, step.residual.alpha);
  settle(options.curvature_floor, step.bfgs.curvature_floor);
  settle(options.relative_curvature_floor, step.bfgs.relative_curvature_floor);
  auto components = chosen.components;
  settle(options.n_component, components);
  if (options.start == Start::preset) options.start = chosen.start;
  const auto start = options.start;
  require((start == Start::file) == !options.start_file.empty(),
          "stage2",
          "start = file and --start_file need each other");
  validate(step);
  return {.step = step, .components = components, .start = start};
}

}  // namespace dimred::stage2
