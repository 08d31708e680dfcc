#include "commands/effects.h"
#include "commands/foreign_options.h"
#include "commands/model_table.h"
#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/train_run.h"
#include "commands/trainer_commands.h"
#include "models/network.h"
#include "optimizers/options.h"
#include "schedules/options.h"
#include "stage1/train.h"
#include "support/errors.h"
#include "support/human.h"
#include "training/data_sets.h"
#include "training/signals.h"

namespace dimred::commands {
namespace {

void add_save_options(OptionTable& table, stage1::Options& options) {
  auto& saves = options.saves;
  table.group("Saves");
  table.add("snapshots_per_epoch",
            &saves.snapshots_per_epoch,
            "weights saved for the PCA, evenly spread over an epoch; 0: none",
            at_least(0));
  table.add("snapshot_from_epoch",
            &saves.snapshot_from_epoch,
            "first epoch with snapshots, counted from 1",
            at_least(1));
  table.add("keep_snapshots", &saves.keep_snapshots, "newest snapshots that stay", at_least(1));
  table.add("checkpoint_every",
            &saves.checkpoint_every,
            "epochs between full resume states",
            at_least(1));
  table.add(
      "keep_checkpoints", &saves.keep_checkpoints, "newest resume states that stay", at_least(1));
  table.add("resume_from",
            &options.resume_from,
            "continue another run (its folder or a state) in this run's folder");
}

void add_control_options(OptionTable& table, stage1::ControlOptions& options) {
  table.group("Control");
  table.add("stop_at_step",
            &options.stop_at_step,
            "ends the run after so many steps; 0: by epochs alone",
            at_least(0));
  table.add("log_loss_every_n_iters",
            &options.log_loss_every_n_iters,
            "steps between two lines of loss, accuracy, rate and samples/s; 0: none",
            at_least(0));
  table.add("early_stopping_patience",
            &options.early_stopping_patience,
            "epochs without a better validation accuracy that end the run; 0: off",
            at_least(0));
  table.add("early_stopping_min_delta",
            &options.early_stopping_min_delta,
            "by how much an accuracy is better",
            at_least(0));
  table.add(
      "keep_best", &options.keep_best, "keep the weights of the best validation accuracy in best/");
  table.add("print_model_statistics",
            &options.print_model_statistics,
            "print the network's layers, parameters and compute before the first step");
}

void add_ema_options(OptionTable& table, method::AverageOptions& options) {
  table.group("Control");
  table.add("ema_decay",
            &options.decay,
            "decay of an exponential mean of the weights, with rows of its own in the curve, saved "
            "as ema.h5; 0: none",
            {.low = 0, .high = 1, .high_open = true});
  table.add("ema_warmup",
            &options.warmup,
            "of update n at most (1 + n) / (10 + n), so that the mean forgets the beginning");
}

void add_bucket_options(OptionTable& table, training::BucketOptions& options) {
  table.group("Gradient");
  table.add("bucket_mb",
            &options.bucket_mb,
            "MiB of gradient summed over ranks at a time, while the backward pass goes on",
            positive());
  table.add("first_bucket_mb", &options.first_bucket_mb, "the same of the first", positive());
  table.add("allreduce_split",
            &options.split,
            "or the buckets' ends as numbers of parameters, ascending: 85,160",
            at_least(1));
}

OptionTable stage1_table(training::CommonOptions& common, stage1::Options& options) {
  OptionTable table("dimred stage1",
                    "Conventional training of a network; saves weight snapshots for the PCA.");
  training::add_run_options(table, common.run);
  training::add_data_options(table, common.data);
  table.locate_after_adoption("data");
  training::add_model_options(table, common.model);
  training::add_loss_options(table, common);
  training::add_options(table, common.loss_scale);
  schedules::add_options(table, options.schedule);
  optimizers::add_options(table, options.optimizer);
  training::add_transfer_options(table, options.transfer);
  add_save_options(table, options);
  add_control_options(table, options.control);
  add_ema_options(table, options.ema);
  training::add_options(table, options.hooks);
  add_bucket_options(table, options.buckets);
  launch::add_options(table, common.ranks);
  add_store_options(table, /*uploads=*/true);
  return table;
}

constexpr auto finder_help =
    "  --find_learning_rate FILE  instead of training: the loss as the rate rises, as CSV; `dimred "
    "stage1 --find_learning_rate FILE --help` lists its options\n";

/// Measured on a network of the same kind, so that the one that is trained is left alone.
std::string statistics_of(const training::Setup& setup, const training::ModelOptions& options) {
  const models::InputShape input{
      setup.data.image_shape.channels, setup.data.image_shape.height, setup.data.image_shape.width};
  const auto network = models::make_network(options.model, input, setup.data.train->classes());
  const auto summary = models::summarise(*network, input);
  return formatted("{}{} parameters, {} multiply-adds an image, forward",
                   model_table(summary),
                   count_text(summary.parameters),
                   count_text(summary.multiply_adds));
}

/// Fills in values that the options leave open; returns the config.toml with them. A schedule keeps
/// its length when the run is later continued to more epochs.
checkpoints::RunConfig resolve(const training::CommonOptions& common,
                               stage1::Options& options,
                               const OptionTable& table) {
  options.epochs = common.run.epochs;
  auto& schedule = options.schedule;
  schedule.global_batch_size = static_cast<double>(*common.run.global_batch_size);
  const auto resolved = schedules::with_total(schedule, static_cast<double>(options.epochs));
  if (schedules::depends_on_length(schedule.kind)) schedule.total_epochs = resolved.total_epochs;
  schedule.anneal_to_epoch = resolved.anneal_to_epoch;
  checkpoints::RunConfig config{.toml = table.to_toml(),
                                .defaults = table.defaults(),
                                .module = training::module_of(common.model),
                                .persistent = checkpoints::persistent_options(table)};
  schedule = resolved;
  return config;
}

void require_validation_set(const stage1::ControlOptions& control,
                            const training::DataOptions& data) {
  const bool wanted = control.keep_best || control.early_stopping_patience > 0;
  require(!wanted || data.validation_fraction > 0,
          "[stage1] {} needs validation_fraction > 0, received 0",
          control.keep_best ? "keep_best" : "early_stopping_patience");
}

}  // namespace

int stage1_command(const std::vector<std::string>& arguments) {
  training::CommonOptions common;
  stage1::Options options;
  auto table = stage1_table(common, options);
  auto flags = arguments;
  const auto fastnn = take_file(flags, "--fastnn");
  if (const auto help = table.parse(flags)) {
    print(*help + foreign_help("--fastnn", "instead of --config: FastNN's hyper-parameter file") +
          finder_help);
    return exit_success;
  }
  std::vector<std::string> remarks;
  if (!fastnn.empty()) remarks = adopt_import(table, imports::read_fastnn(fastnn));
  check_store_options(table);
  const auto overridden = adopt_run(
      table, checkpoints::open_run(options.resume_from), common, "not as the run resumed from: ");
  keep_image_size(table, common.run.output);
  const auto rank_info = launch::discover();
  training::resolve(common, rank_info.size, table);
  const auto config = resolve(common, options, table);
  stage1::validate(options);
  training::validate(options.hooks, rank_info.size);
  require_validation_set(options.control, common.data);
  require_effects(table, options);
  require_effects(table, common.loss_scale);

  const bool on_gpu = training::parse_device(common.run.device).is_cuda();
  return with_ranks("dimred stage1", rank_info, common.ranks, on_gpu, [&](const auto& ranks) {
    require_same_options(ranks, table);
    auto setup = training::make_setup(common, ranks);
    setup.persistent_options = config.persistent;
    training::require_cache_for_training(setup.data);
    const training::RunFolder folder(
        common.run.output, config, *ranks.communicator, common.run.events);
    auto console = console_of(ranks, common.run.quiet);
    for (const auto& line : remarks) console.line(line);
    for (const auto& line : overridden) console.warn(line);
    if (options.control.print_model_statistics) console.line(statistics_of(setup, common.model));
    return train_run(ranks, setup, folder, "stage1", console, [&] {
      training::catch_stop_signals();
      return stage1::train(setup, folder, options, console);
    });
  });
}

}  // namespace dimred::commands
