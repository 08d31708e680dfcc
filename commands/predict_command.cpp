#include <algorithm>
#include <cstdio>
#include <iomanip>
#include <sstream>

#include "checkpoints/artifact.h"
#include "commands/run.h"
#include "commands/saved_weights.h"
#include "commands/text_table.h"
#include "commands/trainer_commands.h"
#include "launch/rank_info.h"
#include "options/option_values.h"
#include "serving/export.h"
#include "serving/find_images.h"
#include "serving/predict.h"
#include "support/errors.h"
#include "support/result_file.h"
#include "support/url.h"
#include "support/utf8.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

constexpr auto prediction_header = "image,rank,label,class,probability\n";

struct PredictOptions : SavedOptions {
  fs::path csv;
  ResultPlace table;  // the place that csv names
  std::int64_t top = 5;
  std::vector<std::string> images;
};

/// The answers as they come: a table on standard output, and CSV for a file.
class PredictionTable {
 public:
  PredictionTable(const std::vector<std::string>& classes, const std::vector<fs::path>& images)
      : classes_(classes) {
    for (const auto& image : images) width_ = std::max(width_, image.string().size());
  }

  void add(const serving::Prediction& prediction) {
    const auto image = terminal_text(prediction.image.string(), "");
    if (!prediction.error.empty()) {
      ++unusable_;
      report("dimred predict", formatted("{}: {}", image, prediction.error), exit_environment);
      return;
    }
    std::ostringstream line;
    line << std::left << std::setw(static_cast<int>(width_)) << image << std::fixed
         << std::setprecision(2) << std::right;
    std::int64_t rank = 0;
    for (const auto& [label, probability] : prediction.guesses) {
      const auto& name = classes_[label];
      line << "  " << std::setw(6) << 100 * probability << " % " << terminal_text(name, "");
      csv_ << csv_field(prediction.image.string()) << ',' << ++rank << ',' << label << ','
           << csv_field(name) << ',' << number_text(probability) << '\n';
    }
    print(line.str() + "\n");
  }

  std::string csv() const { return prediction_header + csv_.str(); }
  std::int64_t unusable() const { return unusable_; }

 private:
  const std::vector<std::string>& classes_;
  std::size_t width_ = 0;
  std::int64_t unusable_ = 0;
  std::ostringstream csv_;
};

int predict_images(const PredictOptions& options,
                   engine::Setup& setup,
                   const std::vector<std::string>& classes) {
  const auto images = serving::find_images(options.images);
  PredictionTable output(classes, images);
  serving::predict(
      setup, images, options.top, [&](const auto& prediction) { output.add(prediction); });
  if (!options.csv.empty()) write_result(options.table, output.csv());
  if (output.unusable() == 0) return exit_success;
  return report("dimred predict",
                formatted("{} of {} images failed", output.unusable(), images.size()),
                exit_environment);
}

void require_classes(bool has_classes, const fs::path& weights) {
  require(has_classes,
          "[predict] needs a network with classes, received {}; a network with margin_loss gives "
          "embeddings, so use dimred verify",
          weights);
}

int predict_with_export(const PredictOptions& options) {
  const auto signature = serving::read_signature(options.weights);
  require_classes(!signature.classes.empty(), options.weights);
  auto setup = serving::open_export(options.weights, signature, options.common.run);
  return predict_images(options, setup, signature.classes);
}

int predict_with_run(PredictOptions& options, OptionTable& table) {
  adopt_run_of(table, options);
  // The data may have changed since the training; the classes of the weights have not.
  if (describes_data(table, options))
    options.common.described_by = checkpoints::run_of(options.weights);
  run::resolve(options.common, 1, table);
  require_classes(options.common.head.margin.kind == models::MarginKind::none, options.weights);
  return with_saved_network(table, options, [&](engine::Setup& setup, const auto&) {
    return predict_images(options, setup, setup.data.train->class_names());
  });
}

}  // namespace

int predict_command(const std::vector<std::string>& arguments) {
  PredictOptions options;
  OptionTable table("dimred predict",
                    "classify images with a run's or an export's network; an IMAGE is a file, "
                    "folder or pattern");
  table.group("Predict", {.essential = true});
  add_saved_options(table, options);
  table
      .add("top",
           &options.top,
           "number of classes shown for each image, most probable first",
           at_least(1))
      .alias("k");
  table.add("csv", &options.csv, "write image, rank, label, class and probability to this file")
      .of_this_machine();
  add_network_options(table, options.common);
  table.rest("IMAGE...", [&](const std::string& image) {
    require(!looks_like_url(image),
            "[predict] needs images on this machine, received {}",
            without_credentials(image));
    options.images.push_back(image);
  });
  if (printed_help(table, arguments)) return exit_success;
  require(!options.weights.empty() && !options.images.empty(),
          "[predict] needs a run or an export, then images: dimred predict (RUN|EXPORT) IMAGE...");
  const fs::path last = options.images.back();
  require(fs::is_directory(options.weights) ||
              (!checkpoints::is_run(last) && serving::find_export(last).empty()),
          "[predict] needs the run or export before the images: dimred predict {} {}",
          last,
          options.weights);
  if (!options.csv.empty()) {
    options.table = result_place(
        table, &options.csv, {.what = "table of dimred predict", .text = prediction_header});
    require_result_place(options.table);
  }
  require(launch::discover().size == 1, "[predict] needs one rank, received several");
  const auto exported = serving::find_export(options.weights);
  if (exported.empty()) return predict_with_run(options, table);
  options.weights = exported;
  refuse_run_options(table, options.weights);
  return predict_with_export(options);
}

}  // namespace dimred::commands
