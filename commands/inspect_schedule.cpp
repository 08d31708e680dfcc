#include "commands/inspect_schedule.h"

#include <algorithm>
#include <filesystem>

#include "commands/run.h"
#include "commands/schedule_drawing.h"
#include "schedules/options.h"
#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct DrawingOptions {
  schedules::ScheduleOptions schedule;
  std::int64_t epochs = 90;
  std::int64_t steps_per_epoch = 100;
  fs::path svg, csv;
};

RateCurve rates_of(const schedules::ScheduleOptions& schedule,
                   std::int64_t steps,
                   std::int64_t steps_per_epoch) {
  RateCurve curve{.steps_per_epoch = static_cast<double>(steps_per_epoch)};
  curve.rates.reserve(static_cast<std::size_t>(steps));
  for (std::int64_t step = 0; step < steps; ++step) {
    curve.rates.push_back(
        schedules::learning_rate(schedule, static_cast<double>(step), curve.steps_per_epoch));
  }
  return curve;
}

void write_text(const fs::path& file, const std::string& text) {
  write_file_atomically(file, text);
  print(formatted("wrote {}\n", file.string()));
}

/// The options that were set, as flags: the drawing's title.
std::string title_of(const OptionTable& table) {
  std::string title;
  for (const auto& row : table.rows()) {
    if (row.group != "Schedule" || row.text.empty()) continue;
    title += row.name == "schedule" ? row.text : formatted(", {} {}", row.name, row.text);
  }
  return title;
}

}  // namespace

int inspect_schedule(const std::vector<std::string>& arguments) {
  DrawingOptions options;
  OptionTable table("dimred inspect --schedule",
                    "Draws a learning rate as stage1 would have it, from the same options.");
  schedules::add_options(table, options.schedule);
  table.group("Run");
  constexpr double longest = 1e6;
  table.add("epochs", &options.epochs, "passes over the training set", between(1, longest));
  table.add("steps_per_epoch",
            &options.steps_per_epoch,
            "training samples / global batch size",
            between(1, longest));
  table.add("global_batch_size",
            &options.schedule.global_batch_size,
            "of plsc: samples per step over all ranks",
            at_least(0));
  table.group("Drawing");
  table.add("svg", &options.svg, "write the drawing to this file, too");
  table.add("csv", &options.csv, "write step,epoch,learning_rate of every step to this file");
  if (const auto help = table.parse(arguments)) {
    print(*help);
    return exit_success;
  }
  constexpr std::int64_t most = 20'000'000;
  require(options.epochs <= most / options.steps_per_epoch,
          "[inspect] needs at most {} steps, received {} epochs of {}",
          most,
          options.epochs,
          options.steps_per_epoch);
  const auto schedule =
      schedules::with_total(options.schedule, static_cast<double>(options.epochs));
  const auto curve =
      rates_of(schedule, options.epochs * options.steps_per_epoch, options.steps_per_epoch);
  print(formatted(
      "learning rate: {}\n\n{}\n{}", title_of(table), text_drawing(curve), landmarks(curve)));
  if (!options.svg.empty()) write_text(options.svg, svg_drawing(curve, title_of(table)));
  if (!options.csv.empty()) write_text(options.csv, rates_csv(curve));
  return exit_success;
}

}  // namespace dimred::commands
