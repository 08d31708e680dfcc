#include "checkpoints/atomic_file.h"
#include "checkpoints/state.h"
#include "commands/effects.h"
#include "commands/foreign_options.h"
#include "commands/pca_ranks.h"
#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/train_run.h"
#include "commands/trainer_commands.h"
#include "distributed/agreement.h"
#include "pca/fit.h"
#include "stage2/options.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/stopwatch.h"
#include "training/frozen.h"
#include "training/load_data.h"
#include "training/signals.h"
#include "training/snapshot_mean.h"
#include "training/soup.h"
#include "training/train_on.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct Plan {
  training::CommonOptions common;
  stage2::Options options;
  training::HookOptions hooks;
  stage2::Resolved resolved;
};

/// Takes the checkpoint's data, model, loss and snapshots over; returns what flags override.
std::vector<std::string> adopt_checkpoint(OptionTable& table, Plan& plan) {
  require(!plan.options.checkpoint.empty(), "stage2", "needs --checkpoint RUN, STATE or FILE");
  require(fs::exists(plan.options.checkpoint),
          "stage2",
          "no such checkpoint: ",
          plan.options.checkpoint.string());
  const auto run = run_of(plan.options.checkpoint);
  if (run.empty()) {
    require(table.was_set("model"),
            "stage2",
            plan.options.checkpoint.string(),
            " belongs to no run folder: needs --model");
    table.locate_all();
    return {};
  }
  if (plan.options.snapshots.empty()) plan.options.snapshots = run / "snapshots";
  return adopt_run(table, run, plan.common);
}

/// The weights, and what making them has cost.
struct Beginning {
  training::Weights weights;
  training::Totals before;
};

Beginning start_weights(training::Setup& setup, const Plan& plan) {
  const auto& options = plan.options;
  switch (plan.resolved.start) {
    case stage2::Start::mean:
      return {training::mean_of_snapshots(setup, options.snapshots, options.start_latest), {}};
    case stage2::Start::soup: {
      auto soup = training::greedy_soup(setup, options.snapshots, options.start_latest);
      const auto batches = soup.images_evaluated / setup.global_batch_size;
      return {std::move(soup.weights), {.forward_passes = batches}};
    }
    case stage2::Start::first:
      return {training::load_weights(setup, training::snapshot_files(options.snapshots).front()),
              {}};
    case stage2::Start::file:
      return {training::load_weights(setup, options.start_file), {}};
    default:
      return {training::load_weights(setup, options.checkpoint), {}};
  }
}

/// Tells one file from another without reading all of it: its length and up to 256 pieces of it.
std::string fingerprint(const fs::path& path) {
  constexpr std::int64_t pieces = 256;
  constexpr std::int64_t piece_bytes = 4096;
  const checkpoints::InputFile file(path);
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(piece_bytes, file.size())));
  DigestStream stream;
  for (std::int64_t i = 0; i < pieces; ++i) {
    file.read((file.size() - std::ssize(piece)) / pieces * i, piece);
    stream.update(piece);
  }
  return concat(file.size(), " bytes, digest ", stream.hex());
}

/// Of what every rank has; sharded parameters come last.
std::string replicated_digest(const layout::Layout& layout, const training::Weights& start) {
  std::int64_t size = 0;
  for (const auto& entry : layout.entries)
    if (entry.placement == layout::Placement::replicated) size += entry.size;
  return digest(std::as_bytes(std::span(start.values).first(static_cast<std::size_t>(size))));
}

void require_same_start(const distributed::Ranks& ranks,
                        const layout::Layout& layout,
                        const fs::path& basis,
                        const training::Weights& start) {
  if (ranks.place.size == 1) return;
  distributed::Facts facts{{"the start weights", replicated_digest(layout, start)}};
  if (!basis.empty()) {
    const auto sidecar = fs::path(basis).replace_extension(".json");
    facts.emplace_back("the projection matrix", fingerprint(basis));
    facts.emplace_back("the matrix's sidecar", fs::exists(sidecar) ? fingerprint(sidecar) : "none");
  }
  distributed::require_agreement(*ranks.communicator, facts);
}

pca::FitOptions fit_options(const Plan& plan, const torch::Device& device) {
  pca::FitOptions fit{.components = plan.resolved.components,
                      .blocks = plan.options.basis_blocks,
                      .snapshots = plan.options.range,
                      .threads = torch::get_num_threads()};
  if (device.is_cuda()) {
    fit.device = pca::DeviceChoice{.number = device.index()};
    fit.tile_bytes = pca::kDeviceTileBytes;
  }
  fit.seed = static_cast<std::uint64_t>(plan.options.basis_seed.value_or(plan.common.run.seed));
  switch (plan.resolved.basis) {
    case stage2::BasisKind::span:
      fit.kind = pca::Kind::span;
      break;
    case stage2::BasisKind::random:
      fit.kind = pca::Kind::random;
      break;
    case stage2::BasisKind::shuffled:
      fit.kind = pca::Kind::shuffled;
      break;
    default:
      fit.kind = pca::Kind::pca;
  }
  return fit;
}

/// The matrix given, or that of this run folder, or a new one from the snapshots.
fs::path basis_file(const Plan& plan,
                    const training::Setup& setup,
                    const training::RunFolder& folder,
                    Console& console) {
  if (!plan.options.pca_mat.empty()) {
    console.line("reusing " + plan.options.pca_mat.string());
    return plan.options.pca_mat;
  }
  auto file = folder.path() / "pca_mat.npy";
  const auto there = distributed::on_rank_0(*setup.communicator, [&]() -> std::string {
    // A start that was killed between the two renames left no sidecar, and so no digests.
    return fs::exists(file) && fs::exists(fs::path(file).replace_extension(".json")) ? "yes" : "no";
  });
  if (there == "yes") {
    console.line("reusing " + file.string());
    return file;
  }
  const auto report = pca::fit_snapshots(plan.options.snapshots,
                                         fit_options(plan, setup.device),
                                         file,
                                         pca_ranks(*setup.communicator));
  console.line(pca::describe(report));
  return file;
}

/// Own columns of P; no components without a subspace.
pca::Basis load_subspace(const Plan& plan,
                         const training::Setup& setup,
                         const fs::path& file,
                         Console& console) {
  if (file.empty()) {
    console.line("no subspace");
    return {};
  }
  auto basis = pca::load_basis(file,
                               setup.flat.layout,
                               setup.columns.own,
                               plan.options.pca_mat.empty() ? 0 : plan.resolved.components,
                               pca::kBasisTolerance,
                               pca_ranks(*setup.communicator),
                               plan.options.basis_dtype);
  const bool rounded = basis.dtype == pca::BasisDtype::bfloat16;
  console.line(concat("basis ",
                      basis.components,
                      " x ",
                      setup.flat.layout.whole_size,
                      basis.block_count > 1 ? concat(", ", basis.block_count, " blocks") : "",
                      rounded ? " in bfloat16" : ""));
  return basis;
}

int descend(const Plan& plan,
            const distributed::Ranks& ranks,
            const training::RunConfig& config,
            const std::vector<std::string>& overridden) {
  auto setup = training::make_setup(plan.common, ranks);
  training::require_room_for_training(setup);
  training::load_frozen(setup, plan.options.checkpoint);
  Stopwatch clock;
  auto beginning = start_weights(setup, plan);
  beginning.before.seconds = clock.seconds();
  const auto& start = beginning.weights;
  const auto budget_steps = setup.steps_per_epoch();
  training::train_on(setup, plan.options.train_on);
  const training::RunFolder folder(
      plan.common.run.output, config, *ranks.communicator, plan.common.run.events);
  auto console = console_of(ranks, plan.common.run.quiet);
  for (const auto& line : overridden) console.warn("not as the checkpoint's run: " + line);
  return train_run(ranks, setup, folder, "stage2", console, [&] {
    const bool subspace = plan.resolved.basis != stage2::BasisKind::none;
    training::keep_frozen(setup, folder.path());
    clock.restart();
    const auto file = subspace ? basis_file(plan, setup, folder, console) : fs::path();
    beginning.before.seconds += clock.seconds();
    require_same_start(ranks, setup.flat.layout, file, start);
    training::catch_stop_signals();  // the PCA before it has no step to stop at
    auto basis = load_subspace(plan, setup, file, console);
    console.line("start: " + start.source);
    if (!start.note.empty()) console.warn(start.note);
    console.line(
        concat("preset ", plan.options.preset, ": ", stage2::preset(plan.options.preset).summary));
    auto options = plan.resolved.train;
    options.epochs = plan.common.run.epochs;
    options.budget_steps = budget_steps;
    options.hooks = plan.hooks;
    return stage2::train(setup,
                         folder,
                         stage2::subspace_of(basis, setup),
                         start,
                         beginning.before,
                         options,
                         console);
  });
}

}  // namespace

int stage2_command(const std::vector<std::string>& arguments) {
  Plan plan;
  plan.common.run.epochs = 2;
  OptionTable table("dimred stage2",
                    "Descent in the subspace of a projection matrix, and its baselines.");
  training::add_run_options(table, plan.common.run, /*least_epochs=*/0);
  training::add_step_event_options(table, plan.common.run.events);
  stage2::add_options(table, plan.options);
  training::add_data_options(table, plan.common.data);
  table.locate_after_adoption("data");
  training::add_model_options(table, plan.common.model);
  training::add_loss_options(table, plan.common);
  training::add_options(table, plan.common.loss_scale);
  training::add_options(table, plan.hooks);
  launch::add_options(table, plan.common.ranks);
  add_store_options(table, /*uploads=*/true);
  auto flags = arguments;
  const auto boost = take_file(flags, "--boost");
  if (const auto help = table.parse(flags)) {
    print(*help +
          foreign_help("--boost", "instead of --config: MindSpore's boost dictionary, JSON"));
    return exit_success;
  }
  std::vector<std::string> remarks;
  if (!boost.empty()) remarks = adopt_import(table, imports::read_boost(boost));
  check_store_options(table);
  const auto overridden = adopt_checkpoint(table, plan);
  keep_image_size(table, plan.common.run.output);
  if (!plan.options.pca_mat.empty() && !plan.options.n_component)
    plan.options.n_component = pca::read_basis_header(plan.options.pca_mat).components;
  plan.resolved = stage2::resolve(plan.options);
  const auto place = launch::discover();
  training::resolve(plan.common, place.size, table);
  training::validate(plan.hooks, place.size);
  require_effects(table, plan.resolved);
  require_effects(table, plan.common.loss_scale);
  const training::RunConfig config{.toml = table.to_toml(),
                                   .defaults = table.defaults(),
                                   .module = training::module_of(plan.common.model)};
  const bool on_gpu = training::parse_device(plan.common.run.device).is_cuda();
  return with_ranks("dimred stage2", place, plan.common.ranks, on_gpu, [&](const auto& ranks) {
    require_same_options(ranks, table);
    auto console = console_of(ranks, plan.common.run.quiet);
    for (const auto& line : remarks) console.line(line);
    return descend(plan, ranks, config, overridden);
  });
}

}  // namespace dimred::commands
