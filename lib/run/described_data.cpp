#include "run/described_data.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoints/run_config.h"
#include "checkpoints/sealed_json.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/json.h"

namespace dimred::run {

engine::DataSets described_data(const std::filesystem::path& folder,
                                const engine::DataOptions& options,
                                const engine::BatchOptions& batches) {
  const auto file = folder / "manifest.json";
  const auto manifest =
      parse_ordered_json(checkpoints::read_text(file), formatted("[data] {}", file));
  checkpoints::require_digest(manifest, file);
  const auto known = {"class_names", "image_shape", "mean", "deviation", "train_data"};
  require(std::ranges::all_of(known, [&](const char* key) { return manifest.contains(key); }),
          "[data] {} has no shape of images, because an earlier revision wrote this file; give the "
          "data of the run with --data PATH",
          file);
  engine::DataSets data{.global_batch_size = batches.global_batch_size};
  data.train = data::without_samples(manifest["class_names"], manifest["train_data"]);
  data.preprocessing = engine::preprocessing_of(options, batches.seed);
  manifest["mean"].get_to(data.preprocessing.mean);
  manifest["deviation"].get_to(data.preprocessing.deviation);
  const std::vector<std::int64_t> shape = manifest["image_shape"];
  require(shape.size() == 3, "[data] {} needs an image_shape of three numbers", file);
  data.image_shape = {shape[0], shape[1], shape[2]};
  validate(data.preprocessing, data.image_shape);
  return data;
}

}  // namespace dimred::run
