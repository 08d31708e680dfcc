#include <filesystem>
#include <optional>

#include "commands/data_command.h"
#include "commands/data_source.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "data/output_folder.h"
#include "data/pack.h"
#include "options/effects.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/formatted.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

enum class TargetFormat { tfrecord, base64, packed };

struct ConvertOptions {
  SourceOptions source;
  TargetFormat target = TargetFormat::tfrecord;
  fs::path output;
  std::int64_t files = 1;
  bool shuffle = false;
  std::int64_t seed = 0;
};

OptionTable convert_table(ConvertOptions& options) {
  OptionTable table("dimred data convert",
                    "rewrite a data set as TFRecord, Base64 or packed files. A later start keeps "
                    "every finished file and writes the rest");
  add_source_options(table, options.source);
  table.group("Output");
  table
      .add_choice<TargetFormat>(
          "to",
          &options.target,
          "output format; JPEG and PNG files are copied, and raw pixels become PNG",
          {{"tfrecord", TargetFormat::tfrecord},
           {"base64", TargetFormat::base64},
           {"packed", TargetFormat::packed}})
      .essential();
  table.add("output", &options.output, "new or empty folder to write")
      .role(OptionRole::output)
      .positional()
      .essential();
  table
      .add(
          "files", &options.files, "number of files for each part (train, test)", between(1, 99999))
      .needs(is("to", {"tfrecord", "base64"}))
      .essential();
  table
      .add("shuffle",
           &options.shuffle,
           "write all samples in random order, so that each file mixes the classes")
      .essential();
  table.add("seed", &options.seed, "seed of the random order", at_least(0)).needs(is_on("shuffle"));
  add_store_options(table);
  return table;
}

std::optional<std::uint64_t> shuffle_seed(const ConvertOptions& options) {
  return options.shuffle ? std::optional(static_cast<std::uint64_t>(options.seed)) : std::nullopt;
}

/// Writes nothing where an earlier start has written it.
data::WriteReport write_packed(const ConvertOptions& options,
                               const SourcePart& part,
                               const std::string& job,
                               const data::Progress& progress) {
  const data::OutputFolder folder(options.output, job);
  const auto name = part.name + ".packed";
  if (folder.has(name)) return {.earlier_files = 1};
  auto dataset = part.dataset;
  if (const auto seed = shuffle_seed(options))
    dataset = data::subset(dataset, data::shuffled_indices(dataset->size(), *seed));
  return data::pack(
      *dataset,
      options.output / name,
      {.skip_bad = options.source.dataset.skip_bad, .threads = thread_count(options.source)},
      progress);
}

data::WriteReport write_files(const ConvertOptions& options,
                              const SourcePart& part,
                              const std::string& job,
                              const data::Progress& progress) {
  const auto& dataset = *part.dataset;
  const bool tfrecord = options.target == TargetFormat::tfrecord;
  const data::OutputFolder folder(tfrecord ? options.output : options.output / part.name, job);
  auto plan =
      data::conversion_plan(tfrecord ? data::RecordForm::tfrecord : data::RecordForm::base64,
                            data::shard_names(tfrecord ? part.name : "part", options.files),
                            dataset.size(),
                            shuffle_seed(options));
  plan.threads = thread_count(options.source);
  plan.skip_bad = options.source.dataset.skip_bad;
  auto report = data::write_records(dataset, plan, folder, progress);
  data::write_lists(dataset, plan, folder);
  return report;
}

void write_part(const ConvertOptions& options, const SourcePart& part, const std::string& job) {
  const auto progress = progress_bar(part.name, part.dataset->size(), options.source.quiet);
  const auto report = options.target == TargetFormat::packed
                          ? write_packed(options, part, job, progress)
                          : write_files(options, part, job, progress);
  report_samples(part, report);
  if (options.source.quiet) return;
  print(formatted("{}: {} of {} in {}{}\n",
                  part.name,
                  counted(report.samples, "image"),
                  counted(part.dataset->classes(), "class", "classes"),
                  options.output,
                  earlier_text(report)));
}

/// Before anything is written: what contradicts the parts.
void validate(const ConvertOptions& options, const std::vector<SourcePart>& parts) {
  for (const auto& part : parts)
    if (options.shuffle) require_cache_for_all(part, "shuffle");
  for (const auto& part : parts) {
    require(part.dataset->size() > 0, "[data] the {} part has no samples", part.name);
    require(
        options.target == TargetFormat::packed || part.dataset->size() >= options.files,
        "[data] --files needs to be at most {} (the number of samples in the {} part), received {}",
        part.dataset->size(),
        part.name,
        options.files);
  }
}

}  // namespace

int data_convert(const std::vector<std::string>& arguments) {
  ConvertOptions options;
  auto table = convert_table(options);
  if (printed_help(table, arguments)) return exit_success;
  require_effects(table);
  check_output(options.output, options.source);
  if (options.target == TargetFormat::base64)
    data::require_only_parts(options.output, {"train", "test"});
  const auto parts = open_source(options.source);
  validate(options, parts);
  std::string job = "dimred data convert";
  for (const auto* field : std::initializer_list<const void*>{
           &options.target, &options.files, &options.shuffle, &options.seed}) {
    const auto& row = table.at(field);
    job += formatted(" {} = {},", row.name, row.show());
  }
  for (const auto& part : parts) job += formatted(" {}", source_text(part));
  for (const auto& part : parts) write_part(options, part, job);
  return exit_success;
}

}  // namespace dimred::commands
