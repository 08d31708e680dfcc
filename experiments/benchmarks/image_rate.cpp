// Images a second of our pipeline; one JSON object on standard output.
//   image_rate photos FOLDER SIZE BATCH THREADS EPOCHS
//     imagenet's recipe: random areas of photographs, SIZE x SIZE
//   image_rate decode FOLDER SIZE
//     the same decoding and cropping on one thread, no loader
//   image_rate folder FOLDER BATCH THREADS EPOCHS
//     images of one size, decoded once, then from memory
// FOLDER holds class folders. Seconds of the wall clock; memory is the resident size after each
// epoch.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
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

using Json = nlohmann::json;

double resident_megabytes() {
  std::ifstream in("/proc/self/statm");
  double whole = 0, resident = 0;
  in >> whole >> resident;
  return resident * sysconf(_SC_PAGESIZE) / 1e6;
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

Json epochs_json(const Dataset& dataset,
                 const Preprocessing& preprocessing,
                 const LoaderOptions& options,
                 std::int64_t epochs) {
  Json result{{"images", dataset.size()}};
  LoaderReport report;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const Stopwatch clock;
    report = run(dataset, preprocessing, options, epoch);
    result["epoch_seconds"].push_back(clock.seconds());
    result["resident_megabytes"].push_back(resident_megabytes());
  }
  result["read_us"] = 1e6 * report.read_seconds / report.samples;
  result["decode_us"] = 1e6 * report.decode_seconds / report.samples;
  result["transform_us"] = 1e6 * report.transform_seconds / report.samples;
  return result;
}

Json photos(const std::vector<std::string>& words) {
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
Json decode_alone(const std::vector<std::string>& words) {
  const auto dataset = open_image_folder(words.at(1));
  const auto preprocessing = recipe(Recipe::imagenet, std::stoll(words.at(2)));
  const Preparer preparer(preprocessing, prepared_shape(preprocessing, *dataset));
  std::vector<std::uint8_t> encoded;
  std::vector<float> out(preparer.shape().size());
  PrepareScratch scratch;
  const auto pass = [&](std::int64_t epoch) {
    for (std::int64_t index = 0; index < dataset->size(); ++index)
      preparer.prepare(dataset->read(index, encoded), epoch, index, scratch, out);
  };
  pass(0);
  const Stopwatch clock;
  pass(1);
  return {{"images", dataset->size()}, {"seconds", clock.seconds()}};
}

Json folder(const std::vector<std::string>& words) {
  const auto threads = std::stoll(words.at(3));
  const Stopwatch clock;
  const std::shared_ptr<const Dataset> files = open_image_folder(words.at(1));
  const auto kept = resident(files, std::int64_t{4} << 30, threads);
  require(kept != files,
          "[image_rate] needs images of one size that fit in 4 GiB, received {}",
          words.at(1));
  const auto statistics = channel_statistics(*kept);
  const double opened = clock.seconds();
  const Preprocessing preprocessing{.mean = statistics.mean,
                                    .deviation = statistics.deviation,
                                    .pad = 4,
                                    .flip = true,
                                    .seed = 1};
  const LoaderOptions options{.batch_size = std::stoll(words.at(2)),
                              .pool = std::make_shared<BatchPool>()};
  auto result = epochs_json(*kept, preprocessing, options, std::stoll(words.at(4)));
  result["open_seconds"] = opened;
  return result;
}

}  // namespace
}  // namespace dimred::data

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    nlohmann::json result;
    if (words.at(0) == "photos") result = dimred::data::photos(words);
    if (words.at(0) == "decode") result = dimred::data::decode_alone(words);
    if (words.at(0) == "folder") result = dimred::data::folder(words);
    std::cout << result.dump() << '\n';
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "image_rate: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
