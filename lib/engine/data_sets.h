#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/format.h"
#include "data/loader.h"
#include "data/presets.h"
#include "distributed/communicator.h"
#include "engine/device/device_data.h"
#include "engine/input/data_record.h"

namespace dimred::engine {

/// The division of data between ranks. samples: each global batch, so that any number of ranks sees
/// the same batches. files: each rank has files of its own, which gives that up.
enum class Sharding { samples, files };

struct DataOptions {
  data::DatasetOptions dataset;
  std::int64_t shuffle_buffer_size =
      0;  // of data in several files: 0: global shuffle; else windows
  Sharding shard = Sharding::samples;
  bool datasets_use_caching = true;        // keep images of one size decoded in memory,
  double cache_memory = 4;                 // of the two sets each up to this number of GB
  double validation_fraction = 0;          // [0, 1), held out of the training set by split_seed
  std::optional<std::int64_t> split_seed;  // unset: the run's seed
  std::int64_t train_samples = 0;          // 0: all; else this number, evenly spread
  std::int64_t test_samples = 0;           // the same
  std::optional<data::Recipe> preprocessing_name;  // unset (auto): as the data needs it
  std::int64_t image_size = 0;  // 0: the recipe's own where it cuts, or the data's
  /// For photographs, where preprocessing_name and image_size are unset: what the network was made
  /// for; resolve() fills it in. none: nothing is known of the network.
  data::Recipe photograph_recipe = data::Recipe::none;
  std::int64_t photograph_size = 0;
  std::int64_t pad = 0;  // pad-crop augmentation, pixels, if > 0 instead of the recipe's
  bool flip = false;     // random horizontal flip, if the recipe has none
  std::vector<double> colour_jitter;  // brightness, contrast, saturation, each >= 0; empty: none
  /// Normalisation with which the weights were trained, for a recipe without one; empty: the
  /// training set's own.
  std::vector<double> trained_mean, trained_deviation;
};

/// Place at which batches are made. automatic: on a CUDA device, of sets that can be kept there.
enum class DataOnDevice { automatic, yes, no };

/// The batches that are prepared ahead of the step, and the threads that prepare them.
struct PrefetchOptions {
  std::int64_t prefetch = 4;                   // batches prepared ahead
  double prefetch_memory = 2;                  // GB that they may take
  std::int64_t num_preprocessing_threads = 0;  // 0: this rank's share of the cores
  std::int64_t num_parallel_batches = 0;       // 0: as many as prefetch
};

/// The batches of a run, and how they are prepared.
struct BatchOptions {
  std::int64_t global_batch_size = 0;  // over all ranks
  std::int64_t seed = 1;
  std::int64_t epochs = 1;
  PrefetchOptions prefetching = {};
};

/// Cost and findings of the input pipeline.
struct DataReport {
  data::LoaderReport training;  // of all epochs: what this rank's loaders cost; on rank 0 the bad
                                // and damaged samples, with the first messages, of all ranks
  double seconds = 0;           // that those epochs took
  bool advised = false;
  std::int64_t bad_test_samples = 0;  // of the latest evaluation, over all ranks
  std::int64_t bad_validation_samples = 0;
};

/// The samples of a run, and how batches are made of them.
struct DataSets {
  data::SharedDataset train, validation, test;  // the latter two may be null
  bool test_is_train = false;                   // the test set has the samples of the training set
  data::Preprocessing preprocessing;  // mean and deviation of `train` unless a recipe has them
  data::ImageShape image_shape;       // of prepared images
  std::int64_t global_batch_size = 0;
  std::shared_ptr<const data::Sampler> sampler;  // of the training samples; null: global
  std::int64_t shuffle_window = 0;               // samples, where the sampler is by windows; else 0
  std::string sample_order = "global";           // the same in words, for the manifest
  data::LoaderOptions loading;  // how batches are prepared; loader_options() fills in the rest
  DataOnDevice keep_on_device = DataOnDevice::no;
  std::vector<std::shared_ptr<DeviceSet>> on_device;  // of the three sets, those for the device
  DataReport report;
  DataRecord record;  // of the sets as opened; empty in tests without

  std::int64_t steps_per_epoch() const;
};

inline constexpr auto test_is_train_text =
    "the test set has the same images as the training set, so its accuracy says nothing about "
    "other "
    "images";

/// How images are prepared by these options, before the data have given a mean and a deviation.
data::Preprocessing preprocessing_of(const DataOptions& options, std::uint64_t seed);

/// Opens the data sets, keeps small images decoded in memory, cuts, splits, and
/// determines how images are prepared (mean and deviation of the training set unless a preset says
/// them). `threads` is this rank's share of the cores. preprocessing_name and image_size are chosen
/// where they are unset. Throws std::invalid_argument for options
/// that contradict the data, std::runtime_error for damaged files.
DataSets load_data(DataOptions& options,
                   const BatchOptions& batches,
                   Communicator& communicator,
                   std::int64_t threads);

// Streamed files that do not all fit in their stream_cache must not be fetched again and again.
// Each of these throws std::invalid_argument where they would be; other data is let through.

/// To be asked before a pass in training_order(), which wants files window by window: needs
/// shuffle_buffer_size > 0, and room for the files of two windows and this setup's batches ahead.
void require_cache_for_pass(const DataSets& data);

/// Before training: the same, and no samples held out, which every epoch would read too.
void require_cache_for_training(const DataSets& data);

/// Before training samples are read several times in another order. `reader`, who does so, ends the
/// message.
void require_cache_for_all(const DataSets& data, std::string_view reader);

}  // namespace dimred::engine
