#include "checkpoints/list_files.h"
#include "checkpoints/state.h"
#include "commands/run.h"
#include "commands/train_run.h"
#include "commands/trainer_commands.h"
#include "pca/fit.h"
#include "stage2/train.h"
#include "support/errors.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct Plan {
  training::CommonOptions common;
  stage2::Options options;
  stage2::Resolved resolved;
};

/// The run folder that a checkpoint belongs to: itself, or the folder above checkpoints/ or
/// snapshots/.
fs::path run_of(const fs::path& checkpoint) {
  auto folder = fs::absolute(checkpoint).lexically_normal();
  for (int level = 0; level < 3; ++level, folder = folder.parent_path()) {
    if (fs::exists(folder / "config.toml")) return folder;
  }
  return {};
}

void adopt_run(OptionTable& table, Plan& plan) {
  require(!plan.options.checkpoint.empty(), "stage2", "needs --checkpoint RUN, STATE or FILE");
  require(fs::exists(plan.options.checkpoint),
          "stage2",
          "no such checkpoint: ",
          plan.options.checkpoint.string());
  const auto run = run_of(plan.options.checkpoint);
  if (!run.empty()) {
    table.adopt_file(run / "config.toml", {"Data", "Model", "Loss"});
    if (plan.options.snapshots.empty()) plan.options.snapshots = run / "snapshots";
  } else {
    require(table.was_set("model"),
            "stage2",
            plan.options.checkpoint.string(),
            " belongs to no run folder: needs --model");
  }
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
  if (fs::exists(file)) {
    console.line("reusing " + file.string());
    return file;
  }
  const auto source = pca::open_source(plan.options.snapshots);
  const auto reduce = [&](std::span<double> values) { setup.communicator->all_reduce(values); };
  const auto report =
      pca::fit(*source,
               {.components = plan.resolved.components, .threads = plan.common.run.threads},
               file,
               reduce);
  console.line(pca::describe(report));
  return file;
}

int descend(Plan& plan, const std::string& config) {
  auto setup = training::make_setup(plan.common);
  const auto start = start_weights(setup, plan);
  const training::RunFolder folder(plan.common.run.output, config);
  Console console(plan.common.run.quiet);
  return train_run(setup, folder, "stage2", [&] {
    const auto file = basis_file(plan, setup, folder, console);
    const auto basis =
        pca::load_basis(file, setup.flat.layout, setup.own_shard(), plan.resolved.components);
    console.line(concat("basis ",
                        basis.components,
                        " x ",
                        setup.flat.layout.file_size,
                        ", preset ",
                        plan.options.preset,
                        ", start: ",
                        start.source));
    const stage2::TrainOptions options{
        .epochs = plan.common.run.epochs,
        .method = plan.options.preset,
        .step = plan.resolved.step,
        .trial_batchnorm_moving = plan.options.trial_batchnorm_moving,
        .recalibrate_batchnorm = plan.options.recalibrate_batchnorm,
        .keep_checkpoints = plan.options.keep_checkpoints};
    return stage2::train(setup, folder, basis, start, options, console);
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
  if (const auto help = table.parse(arguments)) {
    print(*help);
    return exit_success;
  }
  adopt_run(table, plan);
  plan.resolved = stage2::resolve(plan.options);
  return descend(plan, table.to_toml());
}

}  // namespace dimred::commands
