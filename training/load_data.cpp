#include "training/load_data.h"

#include <numeric>

#include "data/label_noise.h"
#include "data/open.h"
#include "data/resident.h"
#include "data/statistics.h"
#include "support/errors.h"

namespace dimred::training {
namespace {

std::shared_ptr<const data::Dataset> first_samples(std::shared_ptr<const data::Dataset> whole,
                                                   std::int64_t count) {
  if (count == 0) return whole;
  require(count <= whole->size(),
          "training::data",
          "needs at most ",
          whole->size(),
          " samples, received ",
          count);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return data::subset(std::move(whole), std::move(indices));
}

data::DatasetOptions dataset_options(const DataOptions& options) {
  return {.kind = options.dataset,
          .path = options.data,
          .test_path = options.test_data,
          .num_classes = options.num_classes,
          .mock_shape = options.mock_shape};
}

std::shared_ptr<const data::Dataset> kept(std::shared_ptr<const data::Dataset> whole,
                                          const DataOptions& options,
                                          std::int64_t threads) {
  if (!options.datasets_use_caching) return whole;
  const auto memory = static_cast<std::int64_t>(options.cache_memory * 1e9);
  return data::resident(std::move(whole), memory, threads);
}

}  // namespace

void load_data(Setup& setup, const DataOptions& options, std::int64_t threads) {
  const auto seed_of = [&](const std::optional<std::int64_t>& seed) {
    return seed ? static_cast<std::uint64_t>(*seed) : setup.seed;
  };
  const auto opened = dataset_options(options);
  std::shared_ptr<const data::Dataset> train = data::open_dataset(opened, /*train=*/true);
  std::shared_ptr<const data::Dataset> test =
      data::open_dataset(opened, /*train=*/false, train->class_names());
  train = kept(first_samples(std::move(train), options.train_samples), options, threads);
  setup.train = data::with_label_noise(
      std::move(train), options.label_noise, seed_of(options.label_noise_seed));
  setup.test = kept(first_samples(std::move(test), options.test_samples), options, threads);
  if (options.validation_fraction > 0) {
    auto split = data::split_indices(
        setup.train->size(), options.validation_fraction, seed_of(options.split_seed));
    require(!split.held_out.empty(),
            "training::data",
            "validation_fraction ",
            options.validation_fraction,
            " of ",
            setup.train->size(),
            " samples holds out none");
    setup.validation = data::subset(setup.train, std::move(split.held_out));
    setup.train = data::subset(setup.train, std::move(split.kept));
  }
  const auto statistics = data::channel_statistics(*setup.train);
  setup.preprocessing.mean = statistics.mean;
  setup.preprocessing.deviation = statistics.deviation;
  setup.preprocessing.pad = options.pad;
  setup.preprocessing.flip = options.flip;
  setup.preprocessing.seed = setup.seed;
}

}  // namespace dimred::training
