#include "commands/inspect_schedule.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "commands/run.h"
#include "options/effects.h"
#include "options/option_values.h"
#include "schedules/schedule.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/result_file.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

/// A learning rate step by step.
struct RateCurve {
  std::vector<double> rates;  // of steps 0, 1, ...; not empty
  double steps_per_epoch = 1;
};

double epoch_of(const RateCurve& curve, double step) { return step / curve.steps_per_epoch; }

constexpr auto rates_header = "step,epoch,learning_rate\n";

constexpr std::size_t width = 72, height = 14, margin = 9;

std::string right(const std::string& text, std::size_t columns) {
  return std::string(columns - std::min(columns, text.size()), ' ') + text;
}

/// "0      epochs      90" below the columns.
std::string epoch_axis(const RateCurve& curve) {
  const auto last = significant_text(epoch_of(curve, static_cast<double>(curve.rates.size())), 3);
  const std::string name = "epochs";
  auto axis = std::string("0") + std::string(width / 2 - name.size() / 2 - 1, ' ') + name;
  axis += right(last, width - axis.size());
  return std::string(margin + 1, ' ') + axis + '\n';
}

/// 72 x 14 characters with axes (rate upwards, epochs to the right); a column shows every rate
/// between the least and the greatest of its steps.
std::string text_drawing(const RateCurve& curve) {
  const auto& rates = curve.rates;
  const double high = std::max(std::ranges::max(rates), 1e-300);
  std::vector<std::string> rows(height, std::string(width, ' '));
  const auto row_of = [high](double rate) {
    const auto row = std::lround(rate / high * (height - 1));
    return height - 1 - static_cast<std::size_t>(std::clamp<long>(row, 0, height - 1));
  };
  for (std::size_t i = 0; i < width; ++i) {
    const auto begin = std::min(i * rates.size() / width, rates.size() - 1);
    const auto end = std::max(begin + 1, (i + 1) * rates.size() / width);
    const auto [least, most] = std::ranges::minmax(std::span(rates).subspan(begin, end - begin));
    for (auto row = row_of(most); row <= row_of(least); ++row) rows[row][i] = '*';
  }
  std::string text;
  for (std::size_t row = 0; row < height; ++row) {
    const double rate = high * static_cast<double>(height - 1 - row) / (height - 1);
    const bool labelled = row == 0 || row == height - 1 || row == height / 2;
    auto line = right(labelled ? significant_text(rate, 3) : "", margin) + (labelled ? '+' : '|') +
                rows[row];
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text + epoch_axis(curve);
}

/// step,epoch,learning_rate; a row a step, numbers that read back as the same bits.
std::string rates_csv(const RateCurve& curve) {
  std::string text = rates_header;
  for (std::size_t step = 0; step < curve.rates.size(); ++step) {
    text += formatted("{},{},{}\n",
                      step,
                      number_text(epoch_of(curve, static_cast<double>(step))),
                      number_text(curve.rates[step]));
  }
  return text;
}

/// Steps where something begins or ends, a line each: the first, the greatest, the least, the last,
/// and where the rate at once becomes less than 0.9 or more than 1.11 of what it was.
std::string landmarks(const RateCurve& curve) {
  const auto& rates = curve.rates;
  const auto index = [&](auto found) { return static_cast<std::size_t>(found - rates.begin()); };
  std::set<std::size_t> steps = {0,
                                 index(std::max_element(rates.begin(), rates.end())),
                                 index(std::min_element(rates.begin(), rates.end())),
                                 rates.size() - 1};
  constexpr std::size_t longest = 24;
  for (std::size_t i = 1; i < rates.size() && steps.size() < longest; ++i) {
    if (rates[i] < 0.9 * rates[i - 1] || rates[i] > rates[i - 1] / 0.9) steps.insert(i);
  }
  std::string text;
  for (const auto step : steps) {
    text += formatted("step {}  epoch {}  rate {}\n",
                      right(std::to_string(step), 8),
                      right(decimal_text(epoch_of(curve, static_cast<double>(step)), 2), 8),
                      number_text(rates[step]));
  }
  return text;
}

struct DrawingOptions {
  schedules::ScheduleOptions schedule;
  std::int64_t epochs = 90;
  std::int64_t steps_per_epoch = 100;
  fs::path csv;
};

RateCurve rates_of(const schedules::ScheduleOptions& schedule,
                   std::int64_t steps,
                   std::int64_t steps_per_epoch) {
  RateCurve curve{.steps_per_epoch = static_cast<double>(steps_per_epoch)};
  curve.rates.reserve(steps);
  for (std::int64_t step = 0; step < steps; ++step) {
    curve.rates.push_back(
        schedules::learning_rate(schedule, static_cast<double>(step), curve.steps_per_epoch));
  }
  return curve;
}

/// The options of the schedule that were set, its kind first: the drawing's title.
std::string title_of(std::span<const Option> rows) {
  std::string title;
  for (const auto& row : rows)
    if (!row.text.empty())
      title +=
          row.field == rows.front().field ? row.text : formatted(", {} {}", row.name, row.text);
  return title;
}

}  // namespace

int inspect_schedule(const std::vector<std::string>& arguments) {
  DrawingOptions options;
  OptionTable table("dimred inspect --schedule",
                    "plot the learning rate that stage1 would use with the same options");
  schedules::add_options(table, options.schedule);
  const auto schedule_rows = table.rows().size();
  table.group("Run");
  constexpr double longest = 1e6;
  table.add("epochs", &options.epochs, "passes over the training set", between(1, longest));
  table.add("steps_per_epoch",
            &options.steps_per_epoch,
            "steps in each epoch: training samples / global batch size",
            between(1, longest));
  table.add("global_batch_size",
            &options.schedule.global_batch_size,
            "samples per step over all ranks; 0: unknown, and schedule = plsc is refused",
            at_least(0));
  table.group("Drawing");
  table.add("csv", &options.csv, "write step,epoch,learning_rate of every step to this file")
      .of_this_machine();
  if (printed_help(table, arguments)) return exit_success;
  require_effects(table);
  const auto place = result_place(
      table, &options.csv, {.what = "table of dimred inspect --schedule", .text = rates_header});
  if (!options.csv.empty()) require_result_place(place);
  constexpr std::int64_t most = 20'000'000;
  require(options.epochs <= most / options.steps_per_epoch,
          "[inspect] needs at most {} steps, received {} epochs of {} steps",
          most,
          options.epochs,
          options.steps_per_epoch);
  const auto schedule =
      schedules::with_total(options.schedule, static_cast<double>(options.epochs));
  const auto curve =
      rates_of(schedule, options.epochs * options.steps_per_epoch, options.steps_per_epoch);
  print(formatted("learning rate: {}\n\n{}\n{}",
                  title_of(std::span(table.rows()).first(schedule_rows)),
                  text_drawing(curve),
                  landmarks(curve)));
  if (options.csv.empty()) return exit_success;
  write_result(place, rates_csv(curve));
  print(formatted("wrote {}\n", options.csv));
  return exit_success;
}

}  // namespace dimred::commands
