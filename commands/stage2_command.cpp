#include <torch/utils.h>

#include <algorithm>

#include "checkpoints/artifact.h"
#include "checkpoints/last_rate.h"
#include "checkpoints/runs.h"
#include "checkpoints/series.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/snapshot_list.h"
#include "checkpoints/state.h"
#include "commands/import_command.h"
#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/saved_weights.h"
#include "commands/train_run.h"
#include "commands/trainer_commands.h"
#include "engine/data_sets.h"
#include "pca/fit.h"
#include "pca/source.h"
#include "run/make_setup.h"
#include "run/signals.h"
#include "run/weights/frozen_file.h"
#include "run/weights/weights.h"
#include "stage2/options.h"
#include "support/agreement.h"
#include "support/counted.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/sampled_digest.h"
#include "support/stopwatch.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct Stage2Plan {
  run::CommonOptions common;
  stage2::Options options;
  run::HookOptions hooks;
};

/// Takes the checkpoint's data, model, loss and snapshots over; returns what flags override.
std::vector<std::string> adopt_checkpoint(OptionTable& table, Stage2Plan& plan) {
  require(!plan.options.checkpoint.empty(), "[stage2] needs --checkpoint RUN, STATE or FILE");
  require(fs::exists(plan.options.checkpoint),
          "[stage2] no such checkpoint: {}",
          plan.options.checkpoint.string());
  require_state(plan.options.checkpoint, "stage2");
  if (const auto other = plan.options.pca_mat; fs::is_directory(other)) {
    plan.options.pca_mat /= "pca_mat.npy";
    require(fs::exists(plan.options.pca_mat),
            "[stage2] {} holds no pca_mat.npy; write this matrix with dimred pca {}, or give "
            "another matrix with --pca_mat FILE",
            other,
            other);
  }
  const auto run = checkpoints::open_run(plan.options.checkpoint);
  require(!run.config.empty() || table.was_set(&plan.common.model.model),
          "[stage2] {} belongs to no run folder, so the network is unknown; give the network with "
          "--model",
          plan.options.checkpoint.string());
  if (plan.options.snapshots.empty() && !run.folder.empty())
    plan.options.snapshots = run.folder / "snapshots";
  require(!is_pattern(plan.options.snapshots),
          "[stage2] needs --snapshots as a run, a folder, a list (.txt) or an .npy, received the "
          "pattern {}",
          plan.options.snapshots);
  auto overridden = adopt_run(table, run, plan.common, "unlike the checkpoint's run: ");
  require_data(table, plan.common.data);
  auto remark = default_data_remark(table, run, plan.options.checkpoint, plan.common.data);
  if (!remark.empty()) overridden.push_back(std::move(remark));
  return overridden;
}

/// A start that was killed between the two renames left no sidecar, and so no digests.
bool is_matrix(const fs::path& file) {
  return fs::exists(file) && fs::exists(fs::path(file).replace_extension(".json"));
}

/// As pca::fit_snapshots reads them.
std::int64_t snapshots_in(const fs::path& path) {
  if (path.extension() == ".npy") return pca::open_source(path)->rows();
  return std::ssize(checkpoints::members({path}, "stage2").members);
}

/// Chooses an unset k: the matrix's, or fewer than the preset's if the snapshots allow no more.
void choose_components(Stage2Plan& plan, std::vector<std::string>& remarks) {
  auto& options = plan.options;
  const auto basis = options.constants.basis;
  const auto components = options.constants.components;
  const bool centred = basis == pca::Kind::pca || basis == pca::Kind::shuffled;
  const auto own_matrix = plan.common.run.output / "pca_mat.npy";
  if (!options.pca_mat.empty() || (centred && is_matrix(own_matrix))) {
    const auto& matrix = options.pca_mat.empty() ? own_matrix : options.pca_mat;
    options.n_component = pca::read_basis_header(matrix).components;
    return;
  }
  if (!centred || !fs::exists(options.snapshots) || options.range != pca::SnapshotRange{}) return;
  const auto snapshots = snapshots_in(options.snapshots);
  if (snapshots < 2 || snapshots > components) return;
  options.n_component = snapshots - 1;
  remarks.push_back(formatted("{}, because there are {} snapshots; the preset uses {} components",
                              counted(*options.n_component, "component"),
                              snapshots,
                              components));
}

/// The snapshots of our own kind, whose mean a start can be; oldest first.
std::vector<fs::path> snapshots_to_average(const fs::path& path) {
  const auto artifact = checkpoints::look(path);
  if (!artifact.is_several() && artifact.kind != checkpoints::ArtifactKind::run) return {};
  const auto folder = checkpoints::snapshots_of(path);
  if (fs::is_directory(folder) && list_files(folder, {".h5"}).empty()) return {};
  auto files = checkpoints::member_weights(run::latest_members(path));
  std::erase_if(files, [](const fs::path& file) { return file.extension() != ".h5"; });
  return files;
}

/// Weights of a run's first half are far from its last ones, and would spoil a mean.
bool is_early(const fs::path& snapshot, const fs::path& last) {
  const auto step = [](const fs::path& file) { return checkpoints::read_snapshot_info(file).step; };
  return 2 * step(snapshot) < step(last);
}

/// A preset's mean is of the snapshots that there are. The checkpoint is the start if there are
/// none, they reach too far back, or it names weights of its own.
void choose_start(Stage2Plan& plan, const OptionTable& table, std::vector<std::string>& remarks) {
  auto& options = plan.options;
  const auto latest = options.constants.start_latest;
  if (table.was_set(&options.constants.start) || options.start_latest || latest == 0) return;
  require(!table.was_set(&options.snapshots) || fs::exists(options.snapshots),
          "[stage2] --snapshots does not exist: {}",
          options.snapshots);
  const auto files = snapshots_to_average(options.snapshots);
  const auto count = std::min(latest, std::ssize(files));
  std::string reason;
  if (!fs::exists(options.checkpoint / "config.toml")) {
    reason = "the checkpoint is a single set of weights";
  } else if (count == 0) {
    reason = formatted("{} has no snapshot_*.h5", options.snapshots);
  } else if (is_early(files[files.size() - count], files.back())) {
    reason = formatted("the latest {} reach back into the first half of the run", count);
  }
  if (reason.empty() && count == latest) return;
  options.constants.start = reason.empty() ? method::Start::mean : method::Start::last;
  options.start_latest = 0;
  remarks.push_back(formatted(
      "start = {}, because {}; the preset starts from the mean of the latest {} snapshots",
      reason.empty() ? "mean" : "last",
      reason.empty()
          ? formatted("only {} {}", counted(count, "snapshot"), count == 1 ? "exists" : "exist")
          : reason,
      latest));
}

/// Handles a preset that wants more snapshots than exist. A resumed run keeps its start, whose
/// snapshots may be gone since.
void fit_to_snapshots(Stage2Plan& plan, OptionTable& table, std::vector<std::string>& remarks) {
  auto& options = plan.options;
  if (!options.n_component) choose_components(plan, remarks);
  if (!table.was_set(&options.constants.start))
    keep_values(table,
                plan.common.run.output,
                {&options.constants.start, &options.start_latest, &options.start_file});
  choose_start(plan, table, remarks);
}

/// Whether the start is made of the snapshots.
bool starts_from_snapshots(method::Start start) {
  return start == method::Start::mean || start == method::Start::first;
}

/// The place of the weights to start from.
const fs::path& start_place(const stage2::Options& options) {
  const auto start = options.constants.start;
  if (starts_from_snapshots(start)) return options.snapshots;
  return start == method::Start::file ? options.start_file : options.checkpoint;
}

stage2::StartWeights start_weights(engine::Setup& setup, const Stage2Plan& plan) {
  const auto& options = plan.options;
  if (starts_from_snapshots(options.constants.start))
    checkpoints::require_one_run(checkpoints::member_runs(snapshots_to_average(options.snapshots)),
                                 "stage2");
  switch (options.constants.start) {
    case method::Start::mean:
      return {run::mean_of_series(setup, options.snapshots, options.start_latest.value_or(0)), {}};
    case method::Start::first:
      return {
          run::load_weights(setup, run::latest_members(options.snapshots).members.front().weights),
          {}};
    case method::Start::file:
      return {run::load_weights(setup, options.start_file), {}};
    default:
      return {run::load_weights(setup, options.checkpoint), {}};
  }
}

/// A state of this run has the weights already, and the files that they began with may be gone.
std::optional<stage2::StartWeights> start_unless_resumed(engine::Setup& setup,
                                                         const Stage2Plan& plan) {
  const bool resumes = on_rank_0(*setup.communicator, [&] {
    const checkpoints::StateStore store(plan.common.run.output / "checkpoints", 1);
    return !store.list().empty();
  });
  if (resumes) return {};
  const Stopwatch clock;
  auto start = start_weights(setup, plan);
  start.cost.seconds = clock.seconds();
  return start;
}

/// The digest of what every rank has; sharded parameters come last.
std::string replicated_digest(const layout::Layout& layout, const run::Weights& start) {
  std::int64_t size = 0;
  for (const auto& entry : layout.entries)
    if (entry.placement == layout::Placement::replicated) size += entry.size;
  return digest(std::as_bytes(std::span(start.values).first(static_cast<std::size_t>(size))));
}

void require_same_start(const distributed::Ranks& ranks,
                        const layout::Layout& layout,
                        const fs::path& basis,
                        const std::optional<stage2::StartWeights>& start) {
  if (ranks.rank_info.size == 1) return;
  Facts facts;
  if (start) facts.emplace_back("the start weights", replicated_digest(layout, start->weights));
  if (!basis.empty()) {
    const auto sidecar = fs::path(basis).replace_extension(".json");
    facts.emplace_back("the projection matrix", sampled_digest(basis));
    facts.emplace_back("the matrix's sidecar",
                       fs::exists(sidecar) ? sampled_digest(sidecar) : "none");
  }
  require_agreement(*ranks.communicator, facts);
}

/// 0: as many as the snapshots span.
std::int64_t components_of(const stage2::Options& options) {
  return options.n_component.value_or(0);
}

pca::FitOptions fit_options(const Stage2Plan& plan) {
  const auto& options = plan.options;
  const auto seed = options.basis_seed.value_or(plan.common.run.seed);
  return {.components = components_of(options),
          .kind = options.constants.basis.value(),
          .blocks = options.basis_blocks,
          .seed = static_cast<std::uint64_t>(seed),
          .snapshots = options.range,
          .threads = torch::get_num_threads()};
}

/// A matrix that was fitted before stays, whatever has become of its snapshots; what has is said.
void say_reuse(const fs::path& matrix, const fs::path& snapshots, Console& console) {
  console.line("reusing " + matrix.string());
  if (const auto different = checkpoints::difference_of_run(snapshots); !different.empty())
    console.warn(formatted("{}; the matrix was fitted before the snapshots changed", different));
}

/// The matrix given, or that of this run folder, or a new one from the snapshots.
fs::path basis_file(const Stage2Plan& plan,
                    const engine::Setup& setup,
                    const run::RunFolder& folder,
                    Console& console) {
  if (!plan.options.pca_mat.empty()) {
    say_reuse(plan.options.pca_mat, plan.options.snapshots, console);
    return plan.options.pca_mat;
  }
  auto file = folder.path() / "pca_mat.npy";
  if (on_rank_0(*setup.communicator, [&] { return is_matrix(file); })) {
    say_reuse(file, plan.options.snapshots, console);
    return file;
  }
  const auto basis =
      pca::fit_snapshots(plan.options.snapshots, fit_options(plan), file, *setup.communicator);
  for (const auto& remark : basis.report.remarks) console.warn(remark);
  console.line(pca::describe(basis));
  return file;
}

/// Own columns of P; no components without a subspace.
pca::Basis load_subspace(const Stage2Plan& plan,
                         const engine::Setup& setup,
                         const fs::path& file,
                         Console& console) {
  if (file.empty()) {
    console.line("no subspace");
    return {};
  }
  auto basis =
      pca::load_basis(file,
                      setup.model.flat.layout,
                      setup.model.columns.own,
                      {.components = plan.options.pca_mat.empty() ? 0 : components_of(plan.options),
                       .dtype = plan.options.basis_dtype},
                      *setup.communicator);
  const bool rounded = basis.dtype == pca::BasisDtype::bfloat16;
  console.line(
      formatted("basis {} x {}{}{}",
                basis.header.components,
                setup.model.flat.layout.global_size,
                basis.block_count() > 1 ? formatted(", {} blocks", basis.block_count()) : "",
                rounded ? " in bfloat16" : ""));
  return basis;
}

int descend(Stage2Plan& plan,
            const distributed::Ranks& ranks,
            const OptionTable& table,
            const std::vector<std::string>& overridden) {
  on_rank_0(*ranks.communicator, [&] { run::require_run_place(plan.common.run.output); });
  const auto preprocessing = plan.common.data.preprocessing_name;
  auto setup = run::make_setup(plan.common, ranks);
  const auto config = run_config(plan.common, table);
  engine::require_cache_for_training(setup.data);
  require_outside_classes(table, plan.common);
  run::load_frozen(setup, plan.options.checkpoint);
  auto start = start_unless_resumed(setup, plan);
  const auto& place = start_place(plan.options);
  const auto seen =
      start ? checked_validation(table, start->weights, place, setup.data, plan.common.data) : "";
  const run::RunFolder folder(
      plan.common.run.output, config, *ranks.communicator, plan.common.run.events);
  auto console = console_of(ranks, plan.common.run.quiet);
  for (const auto& line : overridden) console.warn(line);
  for (const auto& line : {seen, moved_run_remark(table, plan.common.run.output)})
    if (!line.empty()) console.warn(line);
  if (const auto line = describe_choice(preprocessing, plan.common); !line.empty())
    console.line(line);
  return train_run(ranks, setup, folder, "stage2", console, [&] {
    const bool subspace = plan.options.constants.basis.has_value();
    run::keep_frozen(setup, folder.path());
    const Stopwatch clock;
    const auto file = subspace ? basis_file(plan, setup, folder, console) : fs::path();
    if (start) start->cost.seconds += clock.seconds();
    require_same_start(ranks, setup.model.flat.layout, file, start);
    run::catch_stop_signals();  // the PCA before it has no step to stop at
    auto basis = load_subspace(plan, setup, file, console);
    if (start) console.line("start: " + start->weights.source);
    if (start && !start->weights.note.empty()) console.warn(start->weights.note);
    console.line(formatted("preset {}: {}", plan.options.preset, plan.options.constants.summary));
    auto options = stage2::train_options(plan.options);
    options.epochs = plan.common.run.epochs;
    options.hooks = plan.hooks;
    options.stage1_rate =
        checkpoints::last_learning_rate(checkpoints::open_run(plan.options.checkpoint).folder);
    return stage2::train(setup,
                         folder,
                         stage2::subspace_of(basis, setup, plan.options.device_algebra),
                         std::move(start),
                         options,
                         console);
  });
}

OptionTable stage2_table(Stage2Plan& plan) {
  OptionTable table("dimred stage2",
                    "descend in the subspace of a projection matrix, or run a baseline");
  run::add_run_options(table, plan.common.run, /*least_epochs=*/0);
  run::add_step_event_options(table, plan.common.run.events);
  stage2::add_options(table, plan.options);
  run::add_data_options(table, plan.common.data);
  run::add_model_options(table, plan.common.model);
  run::add_loss_options(table, plan.common);
  engine::add_options(table, plan.common.loss_scale);
  run::add_options(table, plan.hooks);
  launch::add_options(table, plan.common.ranks);
  add_store_options(table, /*uploads=*/true);
  return table;
}

}  // namespace

int stage2_command(const std::vector<std::string>& arguments) {
  Stage2Plan plan;
  plan.common.run.epochs = 2;
  auto table = stage2_table(plan);
  auto flags = arguments;
  const auto boost = take_file(flags, "--boost");
  const auto foreign =
      foreign_help("--boost", "instead of --config: MindSpore's boost dictionary, JSON");
  if (printed_help(table, flags, foreign)) return exit_success;
  std::vector<std::string> remarks;
  if (!boost.empty()) remarks = adopt_import(table, imports::read_boost(boost));
  check_store_options(table);
  const auto overridden = adopt_checkpoint(table, plan);
  fit_to_snapshots(plan, table, remarks);
  stage2::resolve(plan.options, table);
  const auto rank_info = launch::discover();
  run::resolve(plan.common, rank_info.size, table);
  run::validate(plan.hooks, rank_info.size);
  const bool on_gpu = engine::parse_device(plan.common.run.device).is_cuda();
  require(on_gpu || plan.options.device_algebra == stage2::DeviceAlgebra::aten,
          "[stage2] --device_algebra fused needs --device cuda, received {}",
          plan.common.run.device);
  return with_ranks(table, plan.common, [&](const auto& ranks) {
    auto console = console_of(ranks, plan.common.run.quiet);
    for (const auto& line : remarks) console.line(line);
    return descend(plan, ranks, table, overridden);
  });
}

}  // namespace dimred::commands
