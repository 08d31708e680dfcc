#include "commands/data_source.h"

#include "data/open.h"
#include "support/console.h"
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
  data::add_kind_option(table, dataset.kind, "kind of data set; auto: by its files");
  table
      .add_choice<SplitChoice>(
          "split",
          &options.split,
          "part to read",
          {{"both", SplitChoice::both}, {"train", SplitChoice::train}, {"test", SplitChoice::test}})
      .essential();
  table
      .add("num_classes",
           &dataset.num_classes,
           "number of classes; 0: the number in the data, or 10 for idx",
           between(0, 1'000'000))
      .essential();
  table.add("labels_offset",
            &dataset.labels_offset,
            "number subtracted from labels of TFRecord and Base64; 1 drops a background class 0");
  table
      .add("data_cache",
           &dataset.cache,
           "folder for indices and decompressed copies (default: .dimred beside the data, else "
           "~/.cache/dimred)")
      .of_this_machine();
  data::add_stream_options(table, options.stream_cache, options.stream_fetches);
  table
      .add_choice("on_bad_sample",
                  &dataset.skip_bad,
                  "for a sample that cannot be read or decoded: fail ends the command, skip leaves "
                  "it out and counts it",
                  {{"fail", false}, {"skip", true}})
      .essential();
  table.group("Machine");
  table
      .add("threads",
           &options.threads,
           "worker threads; 0: all cores of this process",
           between(0, 4096))
      .role(OptionRole::threads)
      .essential();
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
  require(options.stream_cache == 0 || train->stream_capacity(),
          "[data] stream_cache needs data at a URL, received {}",
          options.dataset.path);
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
          "[data] {} reads samples of all files in mixed order and needs a stream_cache for all "
          "files ({}), received {}",
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
  if (report.bad > 0)
    console.warn(formatted("{}: {} bad samples were left out; the first: {}",
                           part.name,
                           report.bad,
                           report.first_bad));
  if (report.damaged > 0)
    console.warn(formatted(
        "{}: {} damaged images were written as far as they could be decoded; the first: {}",
        part.name,
        report.damaged,
        report.first_damaged));
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
