#include "commands/data_source.h"

#include "commands/run.h"
#include "data/open.h"
#include "support/console.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/list_files.h"
#include "support/parallel.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

/// The folder that a pattern looks through; another path itself.
fs::path searched(const fs::path& path) {
  if (!is_pattern(path)) return path;
  fs::path folder;
  for (const auto& part : fs::absolute(path)) {
    if (is_pattern(part)) break;
    folder /= part;
  }
  return folder;
}

/// True when `path` is `folder` or lies below it; links resolved as far as the paths exist.
bool lies_in(const fs::path& path, const fs::path& folder) {
  if (folder.empty() || !fs::is_directory(folder)) return false;
  const auto relative = fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(folder));
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

void add_source_options(OptionTable& table, SourceOptions& options) {
  auto& dataset = options.dataset;
  table.group("Data");
  table.add("data", &dataset.path, "folder, file, list of files or pattern to read")
      .role(OptionRole::data)
      .positional()
      .essential();
  table.add("test_data", &dataset.test_path, "path of the test set (default: found at --data)")
      .essential();
  data::add_kind_option(table, dataset.kind, "kind of data set; auto: detected from the files");
  table
      .add_choice<SplitChoice>(
          "split",
          &options.split,
          "part of the data set to read",
          {{"both", SplitChoice::both}, {"train", SplitChoice::train}, {"test", SplitChoice::test}})
      .essential();
  table
      .add("num_classes",
           &dataset.num_classes,
           "number of classes; 0: the number in the data, or 10 for idx",
           between(0, 1'000'000))
      .essential();
  table.add(
      "labels_offset",
      &dataset.labels_offset,
      "subtract this number from labels of TFRecord and Base64; 1: class 0 is the background");
  data::add_cache_options(table, dataset);
  table
      .add_choice(
          "on_bad_sample",
          &dataset.skip_bad,
          "fail: end the command at an unreadable sample; skip: leave out and count such samples",
          {{"fail", false}, {"skip", true}})
      .essential();
  table.group("Machine");
  add_threads_option(table, options.threads).essential();
  table.add("quiet", &options.quiet, "print errors only").role(OptionRole::quiet);
}

std::string source_text(const SourcePart& part) {
  return formatted("{}: {}{}", part.name, part.dataset->description(), part.dataset->files_state());
}

std::vector<SourcePart> open_source(const SourceOptions& options) {
  require(!options.dataset.path.empty() || options.dataset.kind == "mock" ||
              options.dataset.kind == "idx",
          "[data] needs --data PATH");
  std::vector<SourcePart> parts;
  // The test set's labels are the training set's, so that is opened whenever it is there.
  std::shared_ptr<const data::Dataset> train = data::open_dataset(options.dataset, /*train=*/true);
  if (options.split != SplitChoice::test) parts.push_back({"train", train});
  if (options.split == SplitChoice::train) return parts;
  const auto& names = train->class_names();
  std::shared_ptr<const data::Dataset> test =
      options.split == SplitChoice::test
          ? data::open_dataset(options.dataset, /*train=*/false, names)
          : data::open_test_set_if_any(options.dataset, names);
  if (test) parts.push_back({"test", std::move(test)});
  return parts;
}

void require_cache_for_all(const SourcePart& part, const std::string& what) {
  const auto files = part.dataset->stream_capacity();
  require(!files || files->room >= files->total(),
          "[data] {} reads samples in mixed order, so the stream_cache needs room for all files "
          "({}), received {}",
          what,
          files ? bytes_text(files->total()) : std::string(),
          files ? bytes_text(files->room) : std::string());
}

std::int64_t thread_count(const SourceOptions& options) {
  return options.threads > 0 ? options.threads : available_threads();
}

data::Progress progress_bar(const std::string& label, std::int64_t total, bool quiet) {
  const auto console = std::make_shared<Console>(quiet);
  const auto done = std::make_shared<std::int64_t>(0);
  const auto watch = std::make_shared<Stopwatch>();
  return [=](std::int64_t samples) {
    *done += samples;
    console->progress({.label = label,
                       .done = *done,
                       .total = total,
                       .images_per_second = static_cast<double>(*done) / watch->seconds()});
  };
}

void report_samples(const SourcePart& part, const data::WriteReport& report) {
  Console console(/*quiet=*/true);  // warnings are said all the same
  for (const auto& note : part.dataset->notes()) console.warn(formatted("{}: {}", part.name, note));
  if (report.bad > 0)
    console.warn(formatted("{}: left out {} bad samples; the first bad sample: {}",
                           part.name,
                           report.bad,
                           report.first_bad));
  if (report.damaged > 0)
    console.warn(
        formatted("{}: {} damaged images could be decoded and written only in part; the first "
                  "damaged image: {}",
                  part.name,
                  report.damaged,
                  report.first_damaged));
}

std::string earlier_text(const data::WriteReport& report) {
  if (report.earlier_files == 0) return "";
  return formatted("; {} of an earlier start stayed", counted(report.earlier_files, "file"));
}

void check_output(const fs::path& output, const SourceOptions& options) {
  require(!output.empty(), "[data] needs --output FOLDER");
  for (const auto& source : {options.dataset.path, options.dataset.test_path}) {
    require(!lies_in(output, searched(source)),
            "[data] needs an --output outside the data, received {}",
            output);
  }
}

}  // namespace dimred::commands
