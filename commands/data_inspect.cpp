#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "commands/data_command.h"
#include "commands/data_source.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "data/survey.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/text.h"
#include "support/utf8.h"

namespace dimred::commands {
namespace {

struct InspectOptions {
  SourceOptions source;
  std::int64_t samples = 0;
  std::int64_t rows = 20;
  bool decode = true;
};

OptionTable inspect_table(InspectOptions& options) {
  OptionTable table("dimred data inspect",
                    "print a data set's kind, classes, encodings, sizes and first problems. Exit "
                    "code 1 for any problem");
  options.source.dataset.skip_bad = true;  // bad records are shown, not the end
  add_source_options(table, options.source);
  table.group("Output");
  table
      .add("samples",
           &options.samples,
           "number of samples to read, evenly spread; 0: all",
           at_least(0))
      .essential();
  table
      .add(
          "decode", &options.decode, "decode every image; false: only open files and parse headers")
      .essential();
  table.add("classes", &options.rows, "number of classes to list; 0: all", at_least(0)).essential();
  add_store_options(table);
  return table;
}

std::string sizes_text(const data::Survey& survey) {
  const auto& [low, high] = std::pair(survey.smallest, survey.largest);
  if (low == high) return formatted("{} x {}", low.height, low.width);
  return formatted(
      "height {} to {}, width {} to {}", low.height, high.height, low.width, high.width);
}

std::string classes_text(const data::Survey& survey,
                         const std::vector<std::string>& names,
                         std::int64_t most) {
  std::string text;
  const auto shown =
      most == 0 ? names.size() : std::min(names.size(), static_cast<std::size_t>(most));
  for (std::size_t i = 0; i < shown; ++i)
    text += formatted(
        "    {}  {}  {}\n", i, terminal_text(names[i], ""), count_text(survey.class_counts[i]));
  if (shown < names.size()) text += formatted("    ... and {} more\n", names.size() - shown);
  const auto empty = std::ranges::count(survey.class_counts, 0);
  if (empty > 0) text += formatted("    {} without a sample\n", counted(empty, "class", "classes"));
  return text;
}

/// "colour and grey"
std::string channels_text(const data::Survey& survey) {
  std::set<std::string> channels;
  for (const auto& [name, number] : survey.encodings)
    channels.insert(name.substr(name.find(' ') + 1));
  return joined(channels, " and ");
}

/// Returns whether test images have another size than the training images, which are all alike.
bool differs_in_size(const data::Survey& train, const data::Survey& test) {
  return !train.encodings.empty() && !test.encodings.empty() && train.smallest == train.largest &&
         sizes_text(train) != sizes_text(test);
}

/// Lines on test images that differ from the training images, where these are all alike.
std::string remarks_on_test(const data::Survey& train, const data::Survey& test) {
  if (train.encodings.empty() || test.encodings.empty()) return {};
  std::string text;
  const auto remark = [&](const char* what, const std::string& there, const std::string& here) {
    if (there == here) return;
    text += formatted("  note: the test images differ from the training images in {}: {}, not {}\n",
                      what,
                      here,
                      there);
  };
  if (differs_in_size(train, test)) remark("size", sizes_text(train), sizes_text(test));
  const auto channels = channels_text(train);
  if (channels.find(" and ") == std::string::npos)
    remark("channels", channels, channels_text(test));
  return text;
}

data::Survey survey_of(const SourcePart& part, const InspectOptions& options) {
  const auto size = part.dataset->size();
  const auto count = options.samples == 0 ? size : std::min(options.samples, size);
  return data::survey(*part.dataset,
                      count,
                      thread_count(options.source),
                      progress_bar(part.name, count, options.source.quiet),
                      options.decode);
}

/// Prints one part; returns whether it has problems. `remarks` are lines on both parts.
bool show(const SourcePart& part,
          const data::Survey& survey,
          const InspectOptions& options,
          const std::string& remarks) {
  const auto& dataset = *part.dataset;
  const auto size = dataset.size();
  const auto count = survey.samples;
  std::string text = formatted("{}: {}\n", part.name, dataset.description());
  text += formatted(
      "  samples    {}{}, {}\n",
      count_text(size),
      count < size ? formatted(", of which {} were read", count_text(count)) : std::string(),
      bytes_text(survey.bytes));
  for (const auto& [name, number] : survey.encodings)
    text += formatted("  {}{}{}\n",
                      name,
                      std::string(name.size() < 11 ? 11 - name.size() : 1, ' '),
                      count_text(number));
  text += formatted("  sizes      {}\n", sizes_text(survey));
  text += formatted("  classes    {}\n", dataset.classes());
  text += classes_text(survey, dataset.class_names(), options.rows);
  const auto notes = dataset.notes();
  for (const auto& note : notes) text += formatted("  note: {}\n", terminal_text(note, ""));
  text += remarks;
  for (const auto& problem : survey.problems)
    text += formatted("  problem: {}\n", terminal_text(problem, ""));
  if (survey.problem_count > std::ssize(survey.problems))
    text += formatted("  {} problems in all\n", survey.problem_count);
  print(text);
  const bool skipped = std::ranges::any_of(
      notes, [](const std::string& note) { return note.starts_with("skipped "); });
  return survey.problem_count > 0 || skipped;
}

}  // namespace

int data_inspect(const std::vector<std::string>& arguments) {
  InspectOptions options;
  auto table = inspect_table(options);
  if (printed_help(table, arguments)) return exit_success;
  bool problems = false, sizes_differ = false;
  std::optional<data::Survey> train;
  const auto parts = open_source(options.source);
  for (const auto& part : parts) {
    auto survey = survey_of(part, options);
    auto remarks = train ? remarks_on_test(*train, survey) : std::string();
    if (train && data::same_samples(*parts.front().dataset, *part.dataset))
      remarks += "  note: the test set has the same images as the training set\n";
    sizes_differ = train && differs_in_size(*train, survey);
    problems = show(part, survey, options, remarks) || problems;
    train = std::move(survey);  // the test part comes last
  }
  require_environment(!problems, "[data] {} holds damaged samples", options.source.dataset.path);
  require_environment(
      !sizes_differ,
      "[data] {}: the test images have another size than the training images; stage1 "
      "takes these test images only with a preprocessing that crops",
      options.source.dataset.path);
  return exit_success;
}

}  // namespace dimred::commands
