#include <algorithm>

#include "commands/data_command.h"
#include "commands/data_source.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "data/contact_sheet.h"
#include "data/encode.h"
#include "data/presets.h"
#include "data/resident.h"
#include "data/statistics.h"
#include "options/effects.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/result_file.h"

namespace dimred::commands {
namespace {

struct PreviewOptions {
  SourceOptions source;
  std::filesystem::path output = "preview.png";
  data::Recipe preprocessing_name = data::Recipe::none;
  std::int64_t image_size = 0;
  std::int64_t pad = 0;
  bool flip = false;
  std::vector<double> colour_jitter;
  std::int64_t seed = 1;
  std::int64_t rows = 6, columns = 8;
};

/// The names of the recipes that choose at random, whatever the image size.
std::vector<std::string> random_recipes() {
  std::vector<std::string> names;
  for (const auto& [name, recipe] : data::recipe_names())
    if (data::recipe(recipe, /*image_size=*/0).augments()) names.push_back(name);
  return names;
}

OptionTable preview_table(PreviewOptions& options) {
  OptionTable table("dimred data preview",
                    "draw samples as training sees them: one row for each sample, first the "
                    "evaluation image, then one image per epoch");
  options.source.split = SplitChoice::train;
  add_source_options(table, options.source);
  table.group("Images");
  table
      .add_choice("preprocessing_name",
                  &options.preprocessing_name,
                  "recipe of crops, augmentation and normalisation, as in stage1",
                  data::recipe_names())
      .essential();
  table
      .add("image_size",
           &options.image_size,
           "height and width of the prepared images; 0: the preprocessing's crop size, or the "
           "images' size without a crop",
           between(0, 4096))
      .essential();
  table.add("pad", &options.pad, "pixels to pad before a random crop, as in stage1", between(0, 16))
      .essential();
  table.add("flip", &options.flip, "flip images at random, as in stage1").essential();
  table.add("colour_jitter",
            &options.colour_jitter,
            "range of brightness, contrast and saturation, as in stage1",
            between(0, 10));
  table.add("seed", &options.seed, "seed of the random choices", at_least(0))
      .needs(is("preprocessing_name", random_recipes()) || above("pad") || is_on("flip") ||
             has_value("colour_jitter"));
  table.group("Output");
  table.add("output", &options.output, "PNG file to write; replaces an earlier preview")
      .role(OptionRole::output)
      .essential();
  table.add("rows", &options.rows, "number of samples", between(1, 100)).essential();
  table.add("columns", &options.columns, "number of pictures of each sample", between(1, 100))
      .essential();
  add_store_options(table);
  return table;
}

data::Preprocessing preprocessing_of(const PreviewOptions& options, const data::Dataset& dataset) {
  auto result = data::recipe(options.preprocessing_name, options.image_size);
  if (options.pad > 0) result.pad = options.pad;
  result.flip = result.flip || options.flip;
  result.seed = static_cast<std::uint64_t>(options.seed);
  data::apply(options.colour_jitter, result.jitter);
  if (result.mean.empty()) {  // undone again, so any will do
    const auto channels = static_cast<std::size_t>(data::channels_of(dataset));
    result.mean.assign(channels, 0);
    result.deviation.assign(channels, 1);
  }
  return result;
}

constexpr auto author = "dimred data preview";

/// Files of the data set that have this name; an earlier preview among its images is one of them.
std::vector<std::filesystem::path> samples_named(const data::Dataset& dataset,
                                                 const std::filesystem::path& name) {
  std::vector<std::filesystem::path> files;
  for (std::int64_t i = 0; i < dataset.size(); ++i)
    if (std::filesystem::path file = dataset.origin(i); file.filename() == name)
      files.push_back(std::move(file));
  return files;
}

}  // namespace

int data_preview(const std::vector<std::string>& arguments) {
  PreviewOptions options;
  auto table = preview_table(options);
  if (printed_help(table, arguments)) return exit_success;
  require_effects(table);
  auto place =
      result_place(table,
                   &options.output,
                   {.what = "picture of dimred data preview", .text = author, .within = 128});
  require_result_place(place);
  check_output(options.output, options.source);
  const auto parts = open_source(options.source);
  auto dataset = parts.front().dataset;
  auto preprocessing = preprocessing_of(options, *dataset);
  if (preprocessing.crop.cut == data::CropMode::none && !dataset->shape()) {
    dataset = data::resident(dataset,
                             std::int64_t{4} << 30,
                             thread_count(options.source),
                             static_cast<int>(preprocessing.mean.size()),
                             options.source.dataset.skip_bad);
  }
  std::vector<std::int64_t> indices;
  const auto rows = std::min(options.rows, dataset->size());
  for (std::int64_t row = 0; row < rows; ++row) indices.push_back(row * dataset->size() / rows);
  const auto sheet = data::contact_sheet(*dataset, preprocessing, indices, options.columns);
  place.inputs = samples_named(*dataset, options.output.filename());
  write_result(place,
               data::with_png_text(data::to_png(sheet.pixels, sheet.shape), "Software", author));
  std::string text =
      formatted("{}: {} of {}\n", options.output, counted(rows, "sample"), dataset->description());
  for (const auto index : indices) text += formatted("  {}\n", dataset->origin(index));
  print(text);
  return exit_success;
}

}  // namespace dimred::commands
