#include "engine/data_sets.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "data/open.h"
#include "data/resident.h"
#include "data/samplers.h"
#include "data/statistics.h"
#include "support/agreement.h"
#include "support/errors.h"
#include "support/formatted.h"

namespace dimred::engine {
namespace {

/// Evenly spread over the whole: a data set may lie in the order of its classes.
data::SharedDataset some_samples(data::SharedDataset whole,
                                 std::int64_t count,
                                 const char* option) {
  if (count == 0) return whole;
  require(count <= whole->size(),
          "[data] {} must not exceed the {} samples of {}, received {}",
          option,
          whole->size(),
          whole->title(),
          count);
  std::vector<std::int64_t> indices(count);
  for (std::int64_t i = 0; i < count; ++i) indices[i] = i * whole->size() / count;
  return data::subset(std::move(whole), std::move(indices));
}

data::SharedDataset kept(data::SharedDataset whole,
                         const DataOptions& options,
                         std::int64_t threads,
                         const data::CropOptions& crop,
                         std::int64_t channels) {
  if (!options.datasets_use_caching || whole->stream_capacity()) return whole;
  // Files of larger images may be decoded at a reduction, so keeping pixels would change them.
  const auto longest = crop.cut == data::CropMode::none ? 0 : 2 * crop.size - 1;
  const std::int64_t memory = options.cache_memory * 1e9;
  return data::resident(
      std::move(whole), memory, threads, channels, options.dataset.skip_bad, longest);
}

/// Whether a few samples, spread over the set, differ in size by their headers; unreadable ones do
/// not count.
bool sizes_differ(const data::Dataset& dataset) {
  const auto shapes = data::some_shapes(dataset, 64);
  return std::ranges::any_of(shapes, [&](const data::ImageShape& shape) {
    return shape.height != shapes[0].height || shape.width != shapes[0].width;
  });
}

/// Images of several sizes need a crop.
void take_as_photographs(DataOptions& options) {
  options.preprocessing_name = options.photograph_recipe;
  options.image_size = options.photograph_size;
}

/// Images of one size are taken as they are.
void choose_preprocessing(DataOptions& options, const data::Dataset& train) {
  options.preprocessing_name = data::Recipe::none;
  if (train.shape() || options.image_size > 0 || !sizes_differ(train)) return;
  take_as_photographs(options);
}

/// Whether the options say the mean and deviation of each channel.
bool has_trained_normalisation(const DataOptions& options, std::int64_t channels) {
  return std::ssize(options.trained_mean) == channels &&
         std::ssize(options.trained_deviation) == channels;
}

/// Refuses images that seem to have one size and are neither kept decoded nor cut: without either,
/// an image's size is only known when it is read. Returns whether images differ that seemed alike.
/// Images of several sizes are refused by the preparation.
bool require_known_size(const data::Dataset& set,
                        const DataOptions& options,
                        const data::Preprocessing& preprocessing,
                        std::int64_t channels) {
  if (set.shape() || set.stream_capacity() || preprocessing.crop.cut != data::CropMode::none)
    return false;
  if (sizes_differ(set)) return false;
  const auto shapes = data::some_shapes(set, 1);
  if (shapes.empty()) return false;
  constexpr auto remedy = "or a preprocessing_name with a crop";
  require(options.datasets_use_caching,
          "[data] needs datasets_use_caching = true, {}, received false",
          remedy);
  const auto bytes = channels * shapes[0].height * shapes[0].width * set.size();
  require(static_cast<double>(bytes) <= options.cache_memory * 1e9,
          "[data] needs a cache_memory for all decoded images ({} of {} x {}, {} GB), {}, received "
          "cache_memory = {}",
          set.size(),
          shapes[0].height,
          shapes[0].width,
          static_cast<double>(bytes) / 1e9,
          remedy,
          options.cache_memory);
  return true;  // they would have been kept
}

/// For preprocessing without its own mean and deviation: those of the weights' training, else those
/// of the training set as rank 0 sees it. A disk that lets one rank down must not give it other
/// inputs than the others'.
void normalise(DataSets& data,
               const DataOptions& options,
               Communicator& communicator,
               std::int64_t channels) {
  auto& preprocessing = data.preprocessing;
  if (!preprocessing.mean.empty()) return;
  if (!preprocessing.deviation.empty()) {
    preprocessing.mean.assign(channels, 0);
    preprocessing.deviation.assign(channels, preprocessing.deviation.front());
    return;
  }
  if (has_trained_normalisation(options, channels)) {
    preprocessing.mean = options.trained_mean;
    preprocessing.deviation = options.trained_deviation;
    return;
  }
  const bool whole = data.train->shape() && preprocessing.crop.cut == data::CropMode::none &&
                     preprocessing.change == nullptr;
  std::tie(preprocessing.mean, preprocessing.deviation) = on_rank_0(communicator, [&] {
    auto statistics = whole ? data::channel_statistics(*data.train)
                            : data::prepared_statistics(*data.train, preprocessing, channels);
    return std::pair{std::move(statistics.mean), std::move(statistics.deviation)};
  });
}

data::LoaderOptions loading_of(const DataSets& data,
                               const DataOptions& options,
                               const BatchOptions& batches,
                               std::int64_t threads) {
  // Resident pixels keep one thread busy for a small part of a step; more would take cores from it.
  const bool light = data.train->shape() && data.preprocessing.keeps_pixels();
  const auto& prefetching = batches.prefetching;
  const auto chosen = prefetching.num_preprocessing_threads;
  return {.prefetch = prefetching.prefetch,
          .threads = chosen > 0 ? chosen
                     : light    ? 1
                                : threads,
          .parallel_batches = prefetching.num_parallel_batches,
          .memory = static_cast<std::int64_t>(prefetching.prefetch_memory * 1e9),
          .bad_sample = options.dataset.skip_bad ? data::BadSample::replace : data::BadSample::fail,
          .epochs = batches.epochs};
}

/// The capacity for streamed files that do not all fit in their stream_cache: a reader of all of
/// them, or one that jumps among them, would fetch them again and again. Else nullopt.
std::optional<data::StreamCapacity> scarce_room(const data::Dataset& train) {
  auto files = train.stream_capacity();
  return files && files->room < files->total() ? files : std::nullopt;
}

void require_of_stream(bool holds, const data::StreamCapacity& files, const std::string& rule) {
  require(holds,
          "[data] a stream_cache of {} is too small for all data ({}); enlarge stream_cache{}",
          bytes_text(files.room),
          bytes_text(files.total()),
          rule);
}

void require_streamable(const data::Dataset& train,
                        const DataOptions& options,
                        const data::Preprocessing& preprocessing) {
  if (const auto files = scarce_room(train))
    require_of_stream(!preprocessing.mean.empty() || !options.trained_mean.empty(),
                      *files,
                      ", or choose a preprocessing_name with a fixed mean (to compute the mean, "
                      "dimred would read all files first)");
}

/// Files of record data sets: their order, or their share of ranks. The last step: file shares
/// repeat samples, which no mean and no split may see.
void arrange(DataSets& data, const DataOptions& options, std::uint64_t seed, int ranks) {
  const auto sizes = data.train->shard_sizes();
  require(options.shuffle_buffer_size == 0 || sizes.size() > 1,
          "[data] with shuffle_buffer_size = {}, the data must lie in several TFRecord or Base64 "
          "files, received {}",
          options.shuffle_buffer_size,
          data.train->title());
  require(options.shuffle_buffer_size == 0 || options.shard != Sharding::files,
          "[data] shuffle_buffer_size = {} needs shard = samples, received shard = files, which "
          "already shuffles all samples of each rank",
          options.shuffle_buffer_size);
  require(options.shard != Sharding::files || sizes.size() > 1,
          "[data] with shard = files, the data must lie in several TFRecord or Base64 files, "
          "received {}",
          data.train->title());
  if (options.shard == Sharding::files) {
    auto shares = data::even_shares(sizes, ranks, seed);
    data.train = data::subset(data.train, std::move(shares));
    data.sampler = data::file_shares(data.train->size() / ranks, ranks, data.global_batch_size);
    data.sample_order =
        formatted("files shared over {} ranks: another number of ranks sees other batches", ranks);
  } else if (options.shuffle_buffer_size > 0) {
    data.sampler = data::windowed_shuffle(sizes, options.shuffle_buffer_size);
    data.shuffle_window = options.shuffle_buffer_size;
    data.sample_order = formatted("windows of {} samples", options.shuffle_buffer_size);
  }
}

data::SharedDataset with_all_classes(data::SharedDataset set, const DataOptions& options) {
  return data::with_unused_classes(std::move(set), options.dataset.num_classes);
}

/// The training and the test set with all their samples, and the record of them.
void open_sets(DataSets& data, const DataOptions& options) {
  data.train = data::open_dataset(options.dataset, /*train=*/true);
  data.test = data::open_test_set_if_any(options.dataset, data.train->class_names());
  data.test_is_train = data.test && data::same_samples(*data.train, *data.test);
  require(data.test || options.test_samples == 0,
          "[data] test_samples needs a test set, received {} for {}, which has no test set",
          options.test_samples,
          data.train->title());
  data.record =
      record_of(*with_all_classes(data.train, options), with_all_classes(data.test, options).get());
}

/// Puts validation_fraction of the training samples aside.
void hold_out(DataSets& data, const DataOptions& options, std::uint64_t seed) {
  if (options.validation_fraction == 0) return;
  auto split = data::split_indices(data.train->size(), options.validation_fraction, seed);
  require(
      !split.held_out.empty(),
      "[data] validation_fraction = {} of {} samples holds out no sample; give a larger fraction",
      options.validation_fraction,
      data.train->size());
  data.validation = data::subset(data.train, std::move(split.held_out));
  data.train = data::subset(data.train, std::move(split.kept));
}

std::string shape_text(const data::ImageShape& shape) {
  return formatted("{} x {} x {}", shape.channels, shape.height, shape.width);
}

/// Refuses, before any training, a test set whose images do not become those of the training set.
void require_alike(const DataSets& data) {
  if (!data.test) return;
  const auto wanted = data.image_shape;
  const auto stored = data.test->shape();
  const bool cuts = data.preprocessing.crop.cut != data::CropMode::none;
  // A cut decodes, which makes three equal channels of grey.
  const bool fits = !stored || *stored == wanted ||
                    (cuts && (stored->channels == wanted.channels || stored->channels == 1));
  require(fits && data::prepared_shape(data.preprocessing, *data.test) == wanted,
          "[data] the test set needs images of {} (channels, height, width), as in the training "
          "set, received {} in {}; resize the images, or give another test set with --test_data",
          shape_text(wanted),
          stored ? shape_text(*stored) : "other shapes",
          data.test->title());
}

}  // namespace

data::Preprocessing preprocessing_of(const DataOptions& options, std::uint64_t seed) {
  auto result =
      data::recipe(options.preprocessing_name.value_or(data::Recipe::none), options.image_size);
  if (options.pad > 0) result.pad = options.pad;
  result.flip = result.flip || options.flip;
  data::apply(options.colour_jitter, result.jitter);
  result.seed = seed;
  return result;
}

DataSets load_data(DataOptions& options,
                   const BatchOptions& batches,
                   Communicator& communicator,
                   std::int64_t threads) {
  DataSets data{.global_batch_size = batches.global_batch_size};
  const std::uint64_t run_seed = batches.seed;
  open_sets(data, options);
  require_streamable(*data.train, options, preprocessing_of(options, run_seed));
  const auto whole = data.train;
  data.train = some_samples(whole, options.train_samples, "train_samples");
  const bool by_images = !options.preprocessing_name;
  if (by_images) choose_preprocessing(options, *data.train);
  std::int64_t channels = 0;
  const auto take_recipe = [&] {
    data.preprocessing = preprocessing_of(options, run_seed);
    const auto of_recipe = std::ssize(data.preprocessing.mean);
    channels = of_recipe > 0 ? of_recipe : data::channels_of(*whole);
  };
  take_recipe();
  const auto resident = [&](data::SharedDataset set) {
    return kept(std::move(set), options, threads, data.preprocessing.crop, channels);
  };
  data.train = resident(std::move(data.train));
  const bool differ = require_known_size(*data.train, options, data.preprocessing, channels);
  if (differ && by_images && options.image_size == 0) {
    take_as_photographs(options);
    take_recipe();
  }
  if (data.test)
    data.test = resident(some_samples(std::move(data.test), options.test_samples, "test_samples"));
  if (data.test) require_known_size(*data.test, options, data.preprocessing, channels);
  note_pixels(*data.train, data.record.train);
  if (data.test) note_pixels(*data.test, *data.record.test);
  hold_out(data, options, static_cast<std::uint64_t>(options.split_seed.value_or(batches.seed)));
  for (auto* set : {&data.train, &data.validation, &data.test})
    *set = with_all_classes(std::move(*set), options);
  normalise(data, options, communicator, channels);
  arrange(data, options, run_seed, communicator.size());
  data.image_shape = data::prepared_shape(data.preprocessing, *data.train);
  validate(data.preprocessing, data.image_shape);
  require_alike(data);
  data.loading = loading_of(data, options, batches, threads);
  return data;
}

void require_cache_for_pass(const DataSets& data) {
  const auto files = scarce_room(*data.train);
  if (!files) return;
  require_of_stream(
      data.shuffle_window > 0, *files, ", or set shuffle_buffer_size > 0, received 0");
  const auto window = std::min(data.shuffle_window, data.train->size());
  // Batches ahead of the step, and those of ranks that are behind, may lie in windows of their own.
  const auto span = 2 * window + (data.loading.prefetch + 3) * data.global_batch_size;
  const auto least = data::bytes_at_a_time(data.train->shard_sizes(), *files, span);
  require_of_stream(files->room >= least,
                    *files,
                    formatted(" to at least {} for shuffle_buffer_size = {}, batches of {} and "
                              "prefetch = {}",
                              bytes_text(least),
                              data.shuffle_window,
                              data.global_batch_size,
                              data.loading.prefetch));
}

void require_cache_for_training(const DataSets& data) {
  const auto files = scarce_room(*data.train);
  if (files && data.validation)
    require_of_stream(
        false,
        *files,
        formatted(", or set validation_fraction = 0 (held-out samples lie in all files), "
                  "received {} held-out samples",
                  data.validation->size()));
  require_cache_for_pass(data);
}

void require_cache_for_all(const DataSets& data, std::string_view reader) {
  if (const auto files = scarce_room(*data.train))
    require_of_stream(false, *files, formatted(" to hold all data: {}", reader));
}

std::int64_t DataSets::steps_per_epoch() const {
  return data::steps_per_epoch(train->size(), global_batch_size, /*drop_last=*/false);
}

}  // namespace dimred::engine
