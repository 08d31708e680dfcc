#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "data/loader.h"
#include "distributed/communicator.h"
#include "training/device/device_data.h"
#include "training/input/data_record.h"
#include "training/options.h"

namespace dimred::training {

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

/// Opens the data sets, keeps small images decoded in memory, cuts, splits, and
/// determines how images are prepared (mean and deviation of the training set unless a preset says
/// them). `threads` is this rank's share of the cores. preprocessing_name and image_size are chosen
/// where they are unset. Throws std::invalid_argument for options
/// that contradict the data, std::runtime_error for damaged files. With `described_by` no sample is
/// there, and std::invalid_argument says where the manifest does not know enough.
DataSets load_data(DataOptions& options,
                   const RunOptions& run,
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

}  // namespace dimred::training
