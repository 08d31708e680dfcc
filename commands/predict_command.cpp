#include <algorithm>
#include <cstdio>
#include <iomanip>
#include <span>
#include <sstream>

#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/saved_weights.h"
#include "commands/trainer_commands.h"
#include "serving/export.h"
#include "serving/find_images.h"
#include "serving/predict.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/locations.h"
#include "support/option_values.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct PredictOptions {
  training::CommonOptions common;
  fs::path weights, csv;
  bool recalibrate_batchnorm = true;
  std::int64_t top = 5;
  std::vector<std::string> images;
};

/// Moves all bare arguments but the first, which names the weights, out of `arguments`.
std::vector<std::string> take_images(std::vector<std::string>& arguments,
                                     const OptionTable& table) {
  std::vector<std::string> kept, bare;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& argument = arguments[i];
    if (!argument.starts_with("--")) {
      bare.push_back(argument);
      continue;
    }
    kept.push_back(argument);
    auto name = argument.substr(2);
    std::ranges::replace(name, '-', '_');
    const auto row = std::ranges::find_if(
        table.rows(), [&](const Option& option) { return option.name == name; });
    const bool next = i + 1 < arguments.size();
    const bool switched = row != table.rows().end() && row->kind == OptionKind::boolean;
    const bool truth = next && (arguments[i + 1] == "true" || arguments[i + 1] == "false");
    const bool alone = argument.find('=') != std::string::npos || name == "help";
    if (next && !alone && (!switched || truth)) kept.push_back(arguments[++i]);
  }
  const bool named =
      std::ranges::any_of(kept, [](const auto& text) { return text.starts_with("--weights"); });
  const std::ptrdiff_t first = named || bare.empty() ? 0 : 1;
  kept.insert(kept.end(), bare.begin(), bare.begin() + first);
  arguments = std::move(kept);
  for (const auto& image : std::span(bare).subspan(static_cast<std::size_t>(first)))
    require(!looks_like_url(image),
            "[predict] needs images of this machine, received {}",
            without_credentials(image));
  return {bare.begin() + first, bare.end()};
}

/// The answers as they come: a table on standard output, and CSV for a file.
class Predictions {
 public:
  Predictions(const std::vector<std::string>& classes, const std::vector<fs::path>& images)
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
      const auto& name = classes_[static_cast<std::size_t>(label)];
      line << "  " << std::setw(6) << 100 * probability << " % " << terminal_text(name, "");
      csv_ << quoted(image) << ',' << ++rank << ',' << label << ',' << quoted(name) << ','
           << number_text(probability) << '\n';
    }
    print(line.str() + "\n");
  }

  std::string csv() const { return "image,rank,label,class,probability\n" + csv_.str(); }
  std::int64_t unusable() const { return unusable_; }

 private:
  static std::string quoted(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string result = "\"";
    for (const char letter : text) result += letter == '"' ? "\"\"" : std::string(1, letter);
    return result + "\"";
  }

  const std::vector<std::string>& classes_;
  std::size_t width_ = 0;
  std::int64_t unusable_ = 0;
  std::ostringstream csv_;
};

int predict_images(const PredictOptions& options,
                   training::Setup& setup,
                   const std::vector<std::string>& classes) {
  const auto images = serving::find_images(options.images);
  Predictions output(classes, images);
  serving::predict(
      setup, images, options.top, [&](const auto& prediction) { output.add(prediction); });
  if (!options.csv.empty()) write_file_atomically(options.csv, output.csv());
  if (output.unusable() == 0) return exit_success;
  return report("dimred predict",
                formatted("{} of {} images could not be used", output.unusable(), images.size()),
                exit_environment);
}

constexpr auto embeds =
    "needs a network of classes; one trained with a margin_loss gives embeddings, which dimred "
    "verify compares, received ";

int predict_with_export(const PredictOptions& options) {
  const auto signature = serving::read_signature(options.weights);
  require(!signature.classes.empty(), "[predict] {}{}", embeds, options.weights.string());
  auto setup = serving::open_export(options.weights, signature, options.common.run);
  return predict_images(options, setup, signature.classes);
}

int predict_with_run(PredictOptions& options, OptionTable& table) {
  adopt_run_of(table, options.weights, options.common, "predict");
  training::resolve(options.common, 1, table);
  const bool on_gpu = training::parse_device(options.common.run.device).is_cuda();
  return with_ranks(
      "dimred predict", launch::discover(), options.common.ranks, on_gpu, [&](const auto& ranks) {
        require(options.common.head.margin.kind == models::MarginKind::none,
                "[predict] {}{}",
                embeds,
                options.weights.string());
        auto setup = training::make_setup(options.common, ranks);
        print(lines_of(load_saved(setup, options.weights, options.recalibrate_batchnorm)));
        return predict_images(options, setup, setup.data.train->class_names());
      });
}

}  // namespace

int predict_command(const std::vector<std::string>& arguments) {
  PredictOptions options;
  OptionTable table("dimred predict",
                    "Classes of images, by a run's or an export's network: dimred predict "
                    "(RUN|EXPORT) IMAGE...; an IMAGE is a file, a folder or a pattern.");
  table.group("Predict");
  add_saved_options(table, options.weights, options.recalibrate_batchnorm);
  table.add(
      "top", &options.top, "classes shown for each image, the most probable first", at_least(1));
  table.alias("top", "k");
  table.add("csv", &options.csv, "also write image, rank, label, class, probability to this file");
  training::add_compute_options(table, options.common.run);
  training::add_data_options(table, options.common.data);
  table.locate_after_adoption("data");
  training::add_model_options(table, options.common.model);
  training::add_loss_options(table, options.common);
  add_store_options(table);
  auto flags = arguments;
  options.images = take_images(flags, table);
  if (const auto help = table.parse(flags)) {
    print(*help);
    return exit_success;
  }
  require(!options.weights.empty() && !options.images.empty(),
          "[predict] needs a run or an export, and images: dimred predict (RUN|EXPORT) IMAGE...");
  require(launch::discover().size == 1, "[predict] runs alone, received several ranks");
  if (!fs::exists(options.weights / serving::signature_file))
    return predict_with_run(options, table);
  refuse_run_options(table, options.weights, "predict");
  return predict_with_export(options);
}

}  // namespace dimred::commands
