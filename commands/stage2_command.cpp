#include "checkpoints/atomic_file.h"
#include "checkpoints/list_files.h"
#include "checkpoints/state.h"
#include "commands/pca_ranks.h"
#include "commands/ranks.h"
#include "commands/run.h"
#include "commands/train_run.h"
#include "commands/trainer_commands.h"
#include "distributed/agreement.h"
#include "pca/fit.h"
#include "stage2/train.h"
#include "support/digest.h"
#include "support/errors.h"
#include "training/signals.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct Plan {
  training::CommonOptions common;
  stage2::Options options;
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
    return {};
  }
  if (plan.options.snapshots.empty()) plan.options.snapshots = run / "snapshots";
  return adopt_run(table, run, plan.common);
}

training::Weights start_weights(const training::Setup& setup, const Plan& plan) {
  const auto& options = plan.options;
  switch (plan.resolved.start) {
    case stage2::Start::mean:
      return training::mean_of_snapshots(setup, options.snapshots);
    case stage2::Start::first: {
      const auto files = checkpoints::list_files(options.snapshots, {".h5"});
      require(!files.empty(),
              "stage2",
              "start = first: ",
              options.snapshots.string(),
              " holds no snapshots");
      return training::load_weights(setup, files.front());
    }
    case stage2::Start::file:
      return training::load_weights(setup, options.start_file);
    default:
      return training::load_weights(setup, options.checkpoint);
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

void require_same_start(const distributed::Ranks& ranks,
                        const fs::path& basis,
                        const training::Weights& start) {
  if (ranks.place.size == 1) return;
  const auto sidecar = fs::path(basis).replace_extension(".json");
  distributed::require_agreement(
      *ranks.communicator,
      {{"the projection matrix", fingerprint(basis)},
       {"the matrix's sidecar", fs::exists(sidecar) ? fingerprint(sidecar) : "none"},
       {"the start weights", digest(std::as_bytes(std::span(start.values)))}});
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
  const auto ranks = pca_ranks(*setup.communicator);
  const auto source = pca::open_source(plan.options.snapshots, ranks);
  const auto report =
      pca::fit(*source,
               {.components = plan.resolved.components, .threads = torch::get_num_threads()},
               file,
               ranks);
  console.line(pca::describe(report));
  return file;
}

int descend(const Plan& plan,
            const distributed::Ranks& ranks,
            const std::string& config,
            const std::vector<std::string>& overridden) {
  auto setup = training::make_setup(plan.common, ranks);
  const auto start = start_weights(setup, plan);
  const training::RunFolder folder(plan.common.run.output, config, *ranks.communicator);
  auto console = console_of(ranks, plan.common.run.quiet);
  for (const auto& line : overridden) console.warn("not as the checkpoint's run: " + line);
  return train_run(ranks, setup, folder, "stage2", console, [&] {
    const auto file = basis_file(plan, setup, folder, console);
    require_same_start(ranks, file, start);
    training::catch_stop_signals();  // the PCA before it has no step to stop at
    auto basis = pca::load_basis(file,
                                 setup.flat.layout,
                                 setup.own_shard(),
                                 plan.resolved.components,
                                 pca::kBasisTolerance,
                                 pca_ranks(*setup.communicator),
                                 plan.options.basis_dtype);
    const bool rounded = basis.dtype == pca::BasisDtype::bfloat16;
    console.line(concat("basis ",
                        basis.components,
                        " x ",
                        setup.flat.layout.file_size,
                        rounded ? " in bfloat16" : "",
                        ", start: ",
                        start.source));
    console.line(
        concat("preset ", plan.options.preset, ": ", stage2::preset(plan.options.preset).summary));
    const stage2::TrainOptions options{
        .epochs = plan.common.run.epochs,
        .method = plan.options.preset,
        .step = plan.resolved.step,
        .trial_batchnorm_moving = plan.options.trial_batchnorm_moving,
        .recalibrate_batchnorm = plan.options.recalibrate_batchnorm,
        .keep_checkpoints = plan.options.keep_checkpoints};
    return stage2::train(setup, folder, std::move(basis), start, options, console);
  });
}

}  // namespace

int stage2_command(const std::vector<std::string>& arguments) {
  Plan plan;
  plan.common.run.epochs = 2;
  OptionTable table("dimred stage2",
                    "Line-searched quasi-Newton descent in the subspace of a projection matrix.");
  training::add_run_options(table, plan.common.run);
  stage2::add_options(table, plan.options);
  training::add_data_options(table, plan.common.data);
  training::add_model_options(table, plan.common.model);
  training::add_loss_options(table, plan.common.loss);
  launch::add_options(table, plan.common.ranks);
  if (const auto help = table.parse(arguments)) {
    print(*help);
    return exit_success;
  }
  const auto overridden = adopt_checkpoint(table, plan);
  if (!plan.options.pca_mat.empty() && !plan.options.n_component)
    plan.options.n_component = pca::read_basis_header(plan.options.pca_mat).components;
  plan.resolved = stage2::resolve(plan.options);
  const auto place = launch::discover();
  training::resolve(plan.common, place.size);
  const auto config = table.to_toml();
  const bool on_gpu = training::parse_device(plan.common.run.device).is_cuda();
  return with_ranks("dimred stage2", place, plan.common.ranks, on_gpu, [&](const auto& ranks) {
    require_same_options(ranks, table);
    return descend(plan, ranks, config, overridden);
  });
}

}  // namespace dimred::commands
