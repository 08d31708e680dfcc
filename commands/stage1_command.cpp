#include "commands/ranks.h"
#include "commands/run.h"
#include "commands/train_run.h"
#include "commands/trainer_commands.h"
#include "schedules/options.h"
#include "stage1/train.h"
#include "training/signals.h"

namespace dimred::commands {
namespace {

void add_sgd_options(OptionTable& table, optimizers::SgdOptions& options) {
  table.group("Optimizer");
  table.add("momentum", &options.momentum, "of SGD", {.low = 0, .high = 1, .high_open = true});
  table.add("weight_decay",
            &options.weight_decay,
            "L2, not applied to biases and BatchNorm",
            at_least(0));
  table.add("nesterov", &options.nesterov, "Nesterov's form of the momentum");
}

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

/// Settles what the options leave open; returns the config.toml that says so. A schedule keeps its
/// length when the run is later continued to more epochs.
training::RunConfig resolve(const training::CommonOptions& common,
                            stage1::Options& options,
                            const OptionTable& table) {
  options.epochs = common.run.epochs;
  auto& schedule = options.schedule;
  schedule.global_batch_size = static_cast<double>(*common.run.global_batch_size);
  const auto resolved = schedules::with_total(schedule, static_cast<double>(options.epochs));
  if (schedules::has_length(schedule.kind)) schedule.total_epochs = resolved.total_epochs;
  schedule.anneal_to_epoch = resolved.anneal_to_epoch;
  training::RunConfig config{.toml = table.to_toml(), .defaults = table.defaults()};
  schedule = resolved;
  return config;
}

}  // namespace

int stage1_command(const std::vector<std::string>& arguments) {
  training::CommonOptions common;
  stage1::Options options;
  OptionTable table("dimred stage1",
                    "Conventional training of a network; saves weight snapshots for the PCA.");
  training::add_run_options(table, common.run);
  training::add_data_options(table, common.data);
  training::add_model_options(table, common.model);
  training::add_loss_options(table, common.loss);
  schedules::add_options(table, options.schedule);
  add_sgd_options(table, options.sgd);
  add_save_options(table, options);
  add_bucket_options(table, options.buckets);
  launch::add_options(table, common.ranks);
  if (const auto help = table.parse(arguments)) {
    print(*help);
    return exit_success;
  }
  std::vector<std::string> overridden;
  if (const auto run = run_of(options.resume_from); !run.empty())
    overridden = adopt_run(table, run, common);
  const auto place = launch::discover();
  training::resolve(common, place.size);
  const auto config = resolve(common, options, table);
  stage1::validate(options);

  const bool on_gpu = training::parse_device(common.run.device).is_cuda();
  return with_ranks("dimred stage1", place, common.ranks, on_gpu, [&](const auto& ranks) {
    require_same_options(ranks, table);
    auto setup = training::make_setup(common, ranks);
    const training::RunFolder folder(
        common.run.output, config, *ranks.communicator, common.run.events);
    auto console = console_of(ranks, common.run.quiet);
    for (const auto& line : overridden) console.warn("not as the run resumed from: " + line);
    return train_run(ranks, setup, folder, "stage1", console, [&] {
      training::catch_stop_signals();
      return stage1::train(setup, folder, options, console);
    });
  });
}

}  // namespace dimred::commands
