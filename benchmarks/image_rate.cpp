// Images a second of our pipeline; one JSON object on standard output.
//   image_rate photos FOLDER SIZE BATCH THREADS EPOCHS   random areas to SIZE x SIZE, imagenet's
//   recipe image_rate decode FOLDER SIZE                        the same decoding and cropping on
//   one thread, no loader image_rate folder FOLDER BATCH THREADS EPOCHS        images of one size:
//   decoded once, then from memory
// FOLDER holds class folders. Seconds of the wall clock; memory is the resident size after each
// epoch.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "data/image_files.h"
#include "data/loader.h"
#include "data/presets.h"
#include "data/resident.h"
#include "data/statistics.h"
#include "support/errors.h"
#include "support/stopwatch.h"

namespace dimred::data {
namespace {

double resident_megabytes() {
  std::ifstream in("/proc/self/statm");
  double whole = 0, resident = 0;
  in >> whole >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

/// One epoch; returns what it cost.
LoaderReport run(const Dataset& dataset,
                 const Preprocessing& preprocessing,
                 const LoaderOptions& options,
                 std::int64_t epoch) {
  Loader loader(dataset, {.seed = 1, .size = dataset.size()}, preprocessing, options, epoch);
  while (auto batch = loader.next()) loader.recycle(std::move(*batch));
  return loader.report();
}

std::string epochs_json(const Dataset& dataset,
                        const Preprocessing& preprocessing,
                        const LoaderOptions& options,
                        std::int64_t epochs) {
  std::string seconds, memory;
  LoaderReport report;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const Stopwatch clock;
    report = run(dataset, preprocessing, options, epoch);
    const auto* comma = epoch == 0 ? "" : ", ";
    seconds += formatted("{}{}", comma, clock.seconds());
    memory += formatted("{}{}", comma, resident_megabytes());
  }
  const auto each = [&](double total) { return 1e6 * total / static_cast<double>(report.samples); };
  return formatted(
      "\"images\": {}, \"epoch_seconds\": [{}], \"resident_megabytes\": [{}], \"read_us\": {}, "
      "\"decode_us\": {}, \"transform_us\": {}",
      dataset.size(),
      seconds,
      memory,
      each(report.read_seconds),
      each(report.decode_seconds),
      each(report.transform_seconds));
}

std::string photos(const std::vector<std::string>& words) {
  const auto dataset = open_image_folder(words.at(1));
  const LoaderOptions options{.batch_size = std::stoll(words.at(3)),
                              .threads = std::stoll(words.at(4)),
                              .pool = std::make_shared<BatchPool>()};
  return epochs_json(*dataset,
                     recipe(Recipe::imagenet, std::stoll(words.at(2))),
                     options,
                     std::stoll(words.at(5)));
}

/// The best that one thread can do: the same random choices, without a queue or a batch.
std::string decode_alone(const std::vector<std::string>& words) {
  const auto dataset = open_image_folder(words.at(1));
  const auto preprocessing = recipe(Recipe::imagenet, std::stoll(words.at(2)));
  const auto table = pixel_table(preprocessing);
  const auto shape = prepared_shape(preprocessing, *dataset);
  std::vector<std::uint8_t> encoded;
  std::vector<float> out(static_cast<std::size_t>(shape.size()));
  PrepareScratch scratch;
  const auto pass = [&](std::int64_t epoch) {
    for (std::int64_t index = 0; index < dataset->size(); ++index) {
      const auto sample = dataset->read(index, encoded);
      prepare(sample, shape, preprocessing, table, PixelOrder::planes, epoch, index, scratch, out);
    }
  };
  pass(0);
  const Stopwatch clock;
  pass(1);
  return formatted("\"images\": {}, \"seconds\": {}", dataset->size(), clock.seconds());
}

std::string folder(const std::vector<std::string>& words) {
  const auto threads = std::stoll(words.at(3));
  const Stopwatch clock;
  const std::shared_ptr<const Dataset> files = open_image_folder(words.at(1));
  const auto kept = resident(files, std::int64_t{4} << 30, threads);
  require(kept != files, "[image_rate] needs images of one size");
  const auto statistics = channel_statistics(*kept);
  const double opened = clock.seconds();
  const Preprocessing preprocessing{.mean = statistics.mean,
                                    .deviation = statistics.deviation,
                                    .pad = 4,
                                    .flip = true,
                                    .seed = 1};
  const LoaderOptions options{.batch_size = std::stoll(words.at(2)),
                              .pool = std::make_shared<BatchPool>()};
  return formatted("\"open_seconds\": {}, {}",
                   opened,
                   epochs_json(*kept, preprocessing, options, std::stoll(words.at(4))));
}

}  // namespace
}  // namespace dimred::data

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    std::string text;
    if (words.at(0) == "photos") text = dimred::data::photos(words);
    if (words.at(0) == "decode") text = dimred::data::decode_alone(words);
    if (words.at(0) == "folder") text = dimred::data::folder(words);
    std::cout << '{' << text << "}\n";
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "image_rate: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
