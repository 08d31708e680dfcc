#include <algorithm>
#include <filesystem>

#include "checkpoints/state.h"
#include "commands/import_command.h"
#include "commands/model_command.h"
#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/train_run.h"
#include "commands/trainer_commands.h"
#include "engine/data_sets.h"
#include "models/network.h"
#include "optimizers/optimizer.h"
#include "run/make_setup.h"
#include "run/signals.h"
#include "schedules/schedule.h"
#include "stage1/train.h"
#include "support/agreement.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/list_files.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

void add_save_options(OptionTable& table, stage1::Options& options) {
  auto& saves = options.saves;
  table.group("Saves");
  table
      .add("snapshots_per_epoch",
           &saves.snapshots_per_epoch,
           "snapshots to save in each epoch for the PCA, evenly spread; 0: none",
           at_least(0))
      .essential();
  table.add("snapshot_initial",
            &saves.snapshot_initial,
            "also save the weights before the first step, as epoch 0");
  table
      .add("snapshot_from_epoch",
           &saves.snapshot_from_epoch,
           "first epoch with snapshots, counted from 1",
           at_least(1))
      .needs(above("snapshots_per_epoch"));
  table
      .add("keep_snapshots",
           &saves.keep_snapshots,
           "snapshots to keep; older ones are deleted",
           at_least(1))
      .role(OptionRole::retention);
  table
      .add("yes",
           &saves.yes,
           "allow networks above 1e9 parameters and snapshots that may fill the disk")
      .may_change();
  table.add("checkpoint_every",
            &saves.checkpoint_every,
            "every N epochs, save a state for resuming",
            at_least(1));
  table
      .add("keep_checkpoints",
           &saves.keep_checkpoints,
           "saved states to keep for resuming; older ones are deleted",
           at_least(1))
      .role(OptionRole::retention);
  table
      .add("resume_from",
           &options.resume_from,
           "continue from another run's folder or state, and write to the run folder of --output")
      .role(OptionRole::input)
      .essential();
}

void add_control_options(OptionTable& table, stage1::ControlOptions& options) {
  table.group("Control");
  table
      .add("stop_at_step",
           &options.stop_at_step,
           "end the run after N steps; 0: after --epochs",
           at_least(0))
      .may_change();
  table
      .add("log_loss_every_n_iters",
           &options.log_loss_every_n_iters,
           "print loss, accuracy, learning rate and samples/s every N steps; 0: never",
           at_least(0))
      .may_change();
  table
      .add("early_stopping_patience",
           &options.early_stopping_patience,
           "end the run after N epochs without better validation accuracy; 0: off",
           at_least(0))
      .needs_in_files(above("validation_fraction"));
  table
      .add("early_stopping_min_delta",
           &options.early_stopping_min_delta,
           "smallest gain in accuracy that counts as better",
           at_least(0))
      .needs(above("early_stopping_patience"));
  table
      .add("keep_best",
           &options.keep_best,
           "keep in best/ the weights with the best validation accuracy")
      .needs_in_files(above("validation_fraction"));
  table
      .add("print_model_statistics",
           &options.print_model_statistics,
           "print the network's layers, parameters and multiply-adds before the first step")
      .may_change();
}

void add_ema_options(OptionTable& table, method::AverageOptions& options) {
  table.group("Control");
  table.add("ema_decay",
            &options.decay,
            "save an exponential mean of the weights as ema.h5, with this decay; 0: none",
            less_than(1));
  table
      .add("ema_warmup",
           &options.warmup,
           "limit the decay of update n to (1 + n) / (10 + n), so that early weights fade")
      .needs(above("ema_decay"));
}

void add_bucket_options(OptionTable& table, engine::BucketOptions& options) {
  table.group("Gradient");
  table.add("bucket_mb",
            &options.bucket_mb,
            "size in MiB of the gradient buckets that ranks sum during the backward pass",
            positive());
  table.add(
      "first_bucket_mb", &options.first_bucket_mb, "size in MiB of the first bucket", positive());
  table.add(
      "allreduce_split",
      &options.split,
      "parameter tensors after which a bucket ends, such as 85,160 for the 85th and the 160th",
      at_least(1));
}

/// SGD's default rate for a batch below the usual one: less by as much. None for other optimisers
/// and for schedules that scale by themselves or do not take it.
std::optional<double> rate_of_batch(const stage1::Options& options, std::int64_t batch) {
  using enum schedules::ScheduleKind;
  const auto kind = options.schedule.kind;
  if (kind == plsc || kind == piecewise || batch >= run::usual_batch_size ||
      !optimizers::rate_goes_with_batch(options.optimizer.kind))
    return std::nullopt;
  return options.schedule.learning_rate * static_cast<double>(batch) / run::usual_batch_size;
}

double usual_rate(const stage1::Options& options) {
  return optimizers::usual_learning_rate(options.optimizer.kind)
      .value_or(schedules::ScheduleOptions{}.learning_rate);
}

/// The rows that resolve() and choose_learning_rate() fill in.
void add_followed_rows(OptionTable& table,
                       const run::CommonOptions& common,
                       stage1::Options& options) {
  table.of(&options.schedule.total_epochs)
      .follows({table.at(&common.run.epochs).name},
               [&common](const auto&) { return formatted("{}", common.run.epochs); });
  const auto rate = [&common, &options](const auto&) {
    auto usual = options;
    usual.schedule.learning_rate = usual_rate(options);
    const auto scaled = rate_of_batch(usual, common.run.global_batch_size.value_or(1));
    return formatted("{}", scaled.value_or(usual.schedule.learning_rate));
  };
  table.of(&options.schedule.learning_rate)
      .follows({table.at(&options.optimizer.kind).name, table.at(&common.run.batch_size).name},
               rate);
}

OptionTable stage1_table(run::CommonOptions& common, stage1::Options& options) {
  OptionTable table("dimred stage1", "train a network and save weight snapshots for the PCA");
  run::add_run_options(table, common.run);
  run::add_data_options(table, common.data);
  run::add_model_options(table, common.model);
  run::add_loss_options(table, common);
  engine::add_options(table, common.loss_scale);
  schedules::add_options(table, options.schedule);
  optimizers::add_options(table, options.optimizer);
  run::add_transfer_options(table, options.transfer);
  add_save_options(table, options);
  add_control_options(table, options.control);
  add_ema_options(table, options.ema);
  run::add_options(table, options.hooks);
  add_bucket_options(table, options.buckets);
  launch::add_options(table, common.ranks);
  add_store_options(table, /*uploads=*/true);
  table.of(&common.data.dataset.path).positional();
  add_followed_rows(table, common, options);
  return table;
}

constexpr auto finder_help =
    "  --find_learning_rate FILE       write the loss at rising rates as CSV, and train nothing; "
    "see\n"
    "                                  dimred stage1 --find_learning_rate --help\n";

/// Measures a network of the same kind, and so leaves the trained one alone.
std::string statistics_of(const engine::Setup& setup, const engine::ModelOptions& options) {
  const models::InputShape input{
      setup.data.image_shape.channels, setup.data.image_shape.height, setup.data.image_shape.width};
  const auto network = models::make_network(options.model, input, setup.data.train->classes());
  const auto summary = models::summarise(*network, input);
  return formatted("{}{} parameters, {} multiply-adds an image, forward",
                   model_table(summary),
                   count_text(summary.parameters),
                   count_text(summary.multiply_adds));
}

/// Fills in the rate where nobody gives one, with a remark where it goes with the batch. A resumed
/// run keeps its own rate, and a run continued from `resumed` keeps the choice of `resumed`.
void choose_learning_rate(const run::RunOptions& run,
                          const checkpoints::OpenedRun& resumed,
                          stage1::Options& options,
                          OptionTable& table,
                          std::vector<std::string>& remarks) {
  auto& rate = options.schedule.learning_rate;
  keep_values(table, run.output, {&rate});
  if (table.was_set(&rate)) return;
  rate = usual_rate(options);
  const auto batch = *run.global_batch_size;
  const auto scaled = rate_of_batch(options, batch);
  if (!scaled) return;
  if (!resumed.config.empty()) {
    const auto entries = checkpoints::entries_of(resumed);
    const auto earlier = std::ranges::find(entries, table.at(&rate).name, &ConfigEntry::name);
    if (earlier == entries.end() || std::stod(earlier->text) != *scaled) return;
  }
  remarks.push_back(
      formatted("learning_rate = {}: the default of {} was scaled to the batch size, {} instead of "
                "{}; set another rate with --learning_rate",
                *scaled,
                rate,
                batch,
                run::usual_batch_size));
  rate = *scaled;
}

/// Fills in values that the options leave open; returns the options that a run takes, while the
/// given ones are those of config.toml. A schedule keeps its length when the run is later continued
/// to more epochs.
stage1::Options resolve(const run::CommonOptions& common, stage1::Options& options) {
  options.epochs = common.run.epochs;
  auto& schedule = options.schedule;
  schedule.global_batch_size = static_cast<double>(*common.run.global_batch_size);
  const auto resolved = schedules::with_total(schedule, static_cast<double>(options.epochs));
  if (schedules::depends_on_length(schedule.kind)) schedule.total_epochs = resolved.total_epochs;
  schedule.anneal_to_epoch = resolved.anneal_to_epoch;
  const auto& saves = options.saves;
  require(saves.snapshots_per_epoch == 0 || saves.snapshot_from_epoch <= options.epochs,
          "[stage1] snapshot_from_epoch needs to be at most {} (the number of epochs), received {}",
          options.epochs,
          saves.snapshot_from_epoch);
  auto run = options;
  run.schedule = resolved;
  return run;
}

/// A network or a folder of snapshots of this size is more often a slip than meant.
void require_consent(const engine::Setup& setup,
                     const stage1::Options& options,
                     const fs::path& output) {
  constexpr std::int64_t huge = 1'000'000'000;
  const auto& saves = options.saves;
  const auto parameters = setup.model.flat.layout.global_size;
  require(saves.yes || parameters <= huge,
          "[stage1] the network has {} parameters, and each snapshot takes {}; give --yes to train "
          "this network",
          count_text(parameters),
          bytes_text(4 * parameters));
  if (saves.yes || saves.snapshots_per_epoch == 0 || output.empty()) return;
  on_rank_0(*setup.communicator, [&] {
    auto folder = output;
    while (!fs::exists(folder)) folder = fs::absolute(folder).parent_path();
    const auto there = fs::exists(output / "snapshots")
                           ? std::ssize(list_files(output / "snapshots", {".h5"}))
                           : 0;
    const auto steps = setup.data.steps_per_epoch();
    const auto stop = options.control.stop_at_step;
    const auto last =
        stop == 0 ? options.epochs : std::min(options.epochs, (stop + steps - 1) / steps);
    const auto epochs = std::max<std::int64_t>(0, last - saves.snapshot_from_epoch + 1);
    const auto all = epochs > saves.keep_snapshots / saves.snapshots_per_epoch
                         ? saves.keep_snapshots
                         : epochs * saves.snapshots_per_epoch;
    const auto to_come = std::max<std::int64_t>(0, all - there);
    const auto room = static_cast<std::int64_t>(fs::space(folder).available);
    require(to_come <= room / (4 * parameters),
            "[stage1] {} snapshots of {} need more than the free space of {} at {}; lower "
            "--snapshots_per_epoch or --keep_snapshots, or give --yes",
            to_come,
            bytes_text(4 * parameters),
            bytes_text(room),
            output.string());
  });
}

/// As seen_validation_remark(), of the weights that a new run starts from; rank 0 alone may have
/// them.
std::string seen_start_remark(const OptionTable& table,
                              const engine::Setup& setup,
                              const run::CommonOptions& common,
                              const fs::path& weights) {
  if (weights.empty() || common.data.validation_fraction == 0) return {};
  return on_rank_0(*setup.communicator, [&]() -> std::string {
    if (!checkpoints::states_of(common.run.output).empty()) return {};  // the run goes on
    return seen_validation_remark(table, {}, weights, setup.data, common.data);
  });
}

/// A run of a schedule that ends with the rate 0 would learn nothing from more epochs.
void say_end_of_schedule(const schedules::ScheduleOptions& schedule,
                         std::int64_t steps_per_epoch,
                         checkpoints::RunConfig& config) {
  const auto steps = static_cast<double>(steps_per_epoch);
  if (!schedules::depends_on_length(schedule.kind) || schedule.total_epochs <= 0 ||
      schedules::learning_rate(schedule, schedule.total_epochs * steps, steps) > 0)
    return;
  config.ways_on["total_epochs"] =
      "; the schedule of this run ends with the rate 0, so epochs after {} would change nothing; "
      "for more epochs, choose another --output; for fewer, give --total_epochs {}";
}

}  // namespace

int stage1_command(const std::vector<std::string>& arguments) {
  run::CommonOptions common;
  stage1::Options options;
  auto table = stage1_table(common, options);
  auto flags = arguments;
  const auto fastnn = take_file(flags, "--fastnn");
  const auto foreign =
      foreign_help("--fastnn", "instead of --config: FastNN's hyper-parameter file");
  if (printed_help(table, flags, foreign + finder_help)) return exit_success;
  std::vector<std::string> remarks;
  if (!fastnn.empty()) remarks = adopt_import(table, imports::read_fastnn(fastnn));
  check_store_options(table);
  const auto resumed = checkpoints::open_run(options.resume_from);
  const auto overridden = adopt_run(table, resumed, common, "unlike the resumed run: ");
  if (!options.resume_from.empty()) require_data(table, common.data);
  choose_network_by_data(table, common.model);
  const auto rank_info = launch::discover();
  run::resolve(common, rank_info.size, table);
  choose_learning_rate(common.run, resumed, options, table, remarks);
  const auto resolved = resolve(common, options);
  stage1::validate(resolved);
  run::validate(options.hooks, rank_info.size);

  return with_ranks(table, common, [&](const auto& ranks) {
    on_rank_0(*ranks.communicator, [&] { run::require_run_place(common.run.output); });
    const auto preprocessing = common.data.preprocessing_name;
    auto setup = run::make_setup(common, ranks);
    auto config = run_config(common, table);
    say_end_of_schedule(resolved.schedule, setup.data.steps_per_epoch(), config);
    require_unseen_validation(table, resumed.config, common.data);
    engine::require_cache_for_training(setup.data);
    require_consent(setup, resolved, common.run.output);
    require_outside_classes(table, common);
    const run::RunFolder folder(common.run.output, config, *ranks.communicator, common.run.events);
    auto console = console_of(ranks, common.run.quiet);
    for (const auto& line : remarks) console.line(line);
    for (const auto& line : overridden) console.warn(line);
    const auto seen = seen_start_remark(table, setup, common, options.transfer.initialize_from);
    if (!seen.empty()) console.warn(seen);
    if (const auto line = differences_from(table, resumed); !line.empty()) console.line(line);
    if (const auto line = moved_run_remark(table, common.run.output); !line.empty())
      console.warn(line);
    if (const auto line = describe_choice(preprocessing, common); !line.empty()) console.line(line);
    if (options.control.print_model_statistics) console.line(statistics_of(setup, common.model));
    return train_run(ranks, setup, folder, "stage1", console, [&] {
      run::catch_stop_signals();
      return stage1::train(setup, folder, resolved, console);
    });
  });
}

}  // namespace dimred::commands
