#include "stage2/options.h"

#include <tuple>

#include "method/option_rows.h"
#include "method/validate.h"
#include "support/errors.h"
#include "support/named.h"

namespace dimred::stage2 {

namespace {

using method::Start;

std::vector<std::pair<std::string, method::BasisKind>> basis_names() {
  std::vector<std::pair<std::string, method::BasisKind>> names;
  for (const auto& [name, kind] : pca::kind_names()) names.emplace_back(name, kind);
  names.emplace_back("none", std::nullopt);
  return names;
}

void add_checkpoint_options(OptionTable& table, Options& options) {
  table
      .add("checkpoint",
           &options.checkpoint,
           "weights to start from: run, state, snapshot, weight file, checkpoint folder or index")
      .role(OptionRole::input)
      .essential()
      .positional();
  table
      .add("pca_mat",
           &options.pca_mat,
           "projection matrix to reuse, k x M .npy (default: made from the snapshots)")
      .role(OptionRole::input)
      .essential();
  table
      .add("snapshots",
           &options.snapshots,
           "folder or list (.txt) of snapshots for the projection matrix and the initial weights "
           "(default: from the "
           "checkpoint's run)")
      .role(OptionRole::input)
      .essential();
  table
      .add("preset",
           &options.preset,
           "named set of option values: robust-mean, robust, mindspore-latest, mindspore-first, "
           "dldr, psgd, twa, sgd, swa, ema or schedule-free; options that you give override these "
           "values")
      .essential();
  table.choose_defaults("preset",
                        [&options] { options.constants = method::preset(options.preset); });
}

/// Which snapshots the matrix that is made here has.
void add_range_options(OptionTable& table, pca::SnapshotRange& range, const Condition& made_here) {
  table
      .add("snapshot_from",
           &range.from,
           "for the matrix, use snapshots from this epoch on; 0: from the first on",
           at_least(0))
      .needs_in_files(made_here);
  table
      .add("snapshot_to",
           &range.to,
           "for the matrix, use snapshots up to this epoch; 0: up to the last",
           at_least(0))
      .needs_in_files(made_here);
  table
      .add("snapshot_skip",
           &range.skip,
           "number of snapshots to skip after each used snapshot",
           at_least(0))
      .needs_in_files(made_here);
}

/// The matrix that is made where none is given, and how it is held.
void add_basis_options(OptionTable& table, Options& options) {
  const auto with_basis = !is("basis", {"none"});
  const auto made_here = !has_value("pca_mat") && with_basis;
  table
      .add("n_component",
           &options.n_component,
           "number of components k (default: the preset's number, or all rows of --pca_mat)",
           at_least(1))
      .follows({"preset"},
               [&](const auto&) { return formatted("{}", options.constants.components); })
      .needs(with_basis)
      .essential();
  table
      .add_choice(
          "basis",
          &options.constants.basis,
          "if --pca_mat is not given, make a matrix of this kind (see dimred pca --kind); none: no "
          "subspace",
          basis_names())
      .chosen_by("preset")
      .needs_in_files(!has_value("pca_mat"));
  table
      .add_choice("basis_blocks",
                  &options.basis_blocks,
                  "one basis for all columns, or k components for each layer",
                  pca::blocks_names())
      .needs_in_files(made_here);
  table
      .add("basis_seed",
           &options.basis_seed,
           "seed for --basis random and shuffled (default: the run's seed)",
           at_least(0))
      .needs_in_files(!has_value("pca_mat") && is("basis", {"random", "shuffled"}));
  add_range_options(table, options.range, made_here);
  table
      .add_choice("basis_dtype",
                  &options.basis_dtype,
                  "type of the projection matrix in memory; bfloat16 halves memory and bytes read",
                  {{"float32", pca::BasisDtype::float32}, {"bfloat16", pca::BasisDtype::bfloat16}})
      .needs(with_basis);
  table
      .add_choice(
          "device_algebra",
          &options.device_algebra,
          "compute products with the projection matrix on CUDA by ATen, or by fused kernels",
          {{"aten", DeviceAlgebra::aten}, {"fused", DeviceAlgebra::fused}})
      .needs(with_basis);
}

void add_run_options(OptionTable& table, Options& options) {
  table
      .add_choice("start",
                  &options.constants.start,
                  "initial weights: the checkpoint (last), the snapshots' mean, the first "
                  "snapshot, or --start_file (file)",
                  {{"last", Start::last},
                   {"mean", Start::mean},
                   {"first", Start::first},
                   {"file", Start::file}})
      .removed_choice("soup",
                      "8b694755",
                      "make a soup in Python with dimred.average(FILES, \"greedy\"), and give "
                      "--start file --start_file FILE")
      .chosen_by("preset")
      .essential();
  table
      .add("start_latest",
           &options.start_latest,
           "average only the latest N snapshots; 0: all (default: the preset's number; with "
           "--start, all)",
           at_least(0))
      .follows({"preset"},
               [&](const auto&) { return formatted("{}", options.constants.start_latest); })
      .needs(is("start", {"mean"}));
  table.add("start_file", &options.start_file, "file with the weights to start from")
      .needs(is("start", {"file"}));
  table.add(
      "budget",
      &options.budget,
      "end after as many forward and backward passes as in X epochs of SGD; 0: after --epochs",
      at_least(0));
  table.removed("train_on", "train", "8b694755", "give the samples to train on as --data");
}

}  // namespace

void add_options(OptionTable& table, Options& options) {
  table.group("Stage 2");
  add_checkpoint_options(table, options);
  add_basis_options(table, options);
  add_run_options(table, options);
  table.group("Method", {.chosen_by = "preset"});
  method::add_options(table, options.constants.method, options.constants.penalty);
  method::add_options(table, options.constants.average);
  table.group("Stage 2");
  table.add_choice(
      "trial_batchnorm",
      &options.trial_batchnorm_moving,
      "restored: restore running statistics after each trial; moving: keep each trial's changes, "
      "as in the publication",
      {{"restored", false}, {"moving", true}});
  table.add("recalibrate_batchnorm",
            &options.recalibrate_batchnorm,
            "estimate BatchNorm's running statistics again at the end");
  table
      .add("keep_checkpoints",
           &options.keep_checkpoints,
           "saved states to keep for resuming; older ones are deleted",
           at_least(1))
      .role(OptionRole::retention);
}

namespace {

std::string name_of(method::MethodKind kind) { return listed_name(method::method_names(), kind); }

void require_fitting_constants(const Options& options) {
  const auto& [constants, preset] = std::tie(options.constants, options.preset);
  require((constants.start == Start::file) == !options.start_file.empty(),
          "[stage2] start = file needs --start_file, and --start_file needs start = file");
  require(*options.start_latest == 0 || constants.start == Start::mean,
          "[stage2] start_latest needs start = mean");
  require(constants.basis || options.pca_mat.empty(),
          "[stage2] preset {} has no subspace; leave out --pca_mat",
          preset);
  require(constants.basis || constants.method.kind != method::MethodKind::psgd,
          "[stage2] method = psgd needs a basis, received basis = none");
  require(constants.average.kind != method::AverageKind::schedule_free ||
              (constants.method.kind == method::MethodKind::sgd &&
               constants.method.rates.momentum == 0),
          "[stage2] average = schedule_free needs method = sgd and momentum = 0");
}

}  // namespace

void resolve(Options& options, const OptionTable& table) {
  const auto& constants = options.constants;
  const bool all = constants.basis == pca::Kind::span && !options.n_component;
  if (!all) options.n_component = options.n_component.value_or(constants.components);
  const bool own_start = !table.was_set(&constants.start);
  options.start_latest = options.start_latest.value_or(own_start ? constants.start_latest : 0);
  require_fitting_constants(options);
  method::validate(constants);
}

TrainOptions train_options(const Options& options) {
  const auto& constants = options.constants;
  const auto kind = constants.method.kind;
  const bool own_method = kind == method::preset(options.preset).method.kind;
  return {.label = own_method ? options.preset : name_of(kind),
          .budget = options.budget,
          .method = constants.method,
          .penalty = constants.penalty,
          .average = constants.average,
          .trial_batchnorm_moving = options.trial_batchnorm_moving,
          .recalibrate_batchnorm = options.recalibrate_batchnorm,
          .keep_checkpoints = options.keep_checkpoints};
}

}  // namespace dimred::stage2
