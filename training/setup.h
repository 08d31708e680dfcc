#pragma once

#include <memory>
#include <vector>

#include "data/loader.h"
#include "distributed/columns.h"
#include "distributed/connect.h"
#include "models/flat.h"
#include "training/data_record.h"
#include "training/device.h"
#include "training/device_data.h"
#include "training/options.h"
#include "training/pass_graphs.h"

namespace dimred::training {

/// What the input pipeline has cost and met.
struct DataReport {
  data::LoaderReport training;  // of all epochs: what this rank's loaders cost; on rank 0 the bad
                                // and damaged samples, with the first messages, of all ranks
  double seconds = 0;           // that those epochs took
  bool advised = false;
  std::int64_t bad_test_samples = 0;  // of the latest evaluation, over all ranks
  std::int64_t bad_validation_samples = 0;
};

/// Everything a stage trains with, made from the options alone.
struct Setup {
  std::shared_ptr<distributed::Communicator> communicator;
  std::shared_ptr<const data::Dataset> train, validation, test;  // validation may be null
  data::Preprocessing preprocessing;  // mean and deviation of `train` unless a recipe has them
  data::ImageShape image_shape;       // of prepared images
  std::unique_ptr<models::Objective> objective;
  models::FlatVectors flat;
  distributed::Columns columns;  // of the flat vectors, by rank
  torch::Device device = torch::kCPU;
  layout::MemoryFormat memory_format = layout::MemoryFormat::contiguous;
  models::Precision precision = models::Precision::float32;
  LossScale loss_scale;
  std::shared_ptr<PassGraphs> graphs;  // null: passes are not recorded
  std::int64_t global_batch_size = 0;
  BatchNormPolicy batchnorm_statistics = BatchNormPolicy::averaged;
  std::int64_t gradient_accumulation = 1;
  std::shared_ptr<const data::Arrangement> arrangement;  // of the training samples; null: global
  std::int64_t shuffle_window = 0;      // samples, where the arrangement is by windows; else 0
  std::string sample_order = "global";  // the same in words, for the manifest
  data::LoaderOptions loading;  // how batches are prepared; loader_options() fills in the rest
  DataOnDevice data_on_device = DataOnDevice::no;
  std::vector<std::shared_ptr<DeviceSet>> on_device;  // of the three sets, those for the device
  DataReport data_report;
  DataRecord data_record;       // of the data sets as opened; empty in tests without
  std::string lasting_options;  // checkpoints::lasting_options of this run; empty in tests without
  std::string logits;           // names of the network's last layers, as NetworkInfo has them
  // Digest of what is frozen, which weights from elsewhere must share; empty: nothing is.
  std::string frozen_digest;
  std::uint64_t seed = 0;
  int batchnorm_layers = 0;

  std::int64_t steps_per_epoch() const;
};

/// The precision meant on that device. Throws std::invalid_argument for bfloat16 where it is not
/// native ("auto" falls back to float32) and for float16 without CUDA.
models::Precision choose_precision(PrecisionChoice choice, torch::Device device);

/// Sets torch's threads (the machine's cores shared by its ranks), loads the data, builds the
/// network with weights drawn from the seed. Options must be resolved. Throws std::invalid_argument
/// for options that contradict each other or the data, a missing device, bfloat16 where it is not
/// native ("auto" falls back) and float16 without CUDA, and on every rank when they disagree in
/// data or layout.
Setup make_setup(const CommonOptions& options, const distributed::Ranks& ranks);

/// Gives a setup that has its images' shape, device, seed and communicator a network with weights
/// drawn from the seed, or a TorchScript module with its own, the head behind it if one is wanted
/// (its classes shared out over the ranks), and the flat vectors behind both.
/// Throws std::invalid_argument as make_network does, and for a module that cannot take images in
/// the options' memory format.
void attach_network(Setup& setup,
                    const ModelOptions& model,
                    const models::LossOptions& loss,
                    std::int64_t classes,
                    const models::HeadOptions& head = {});

/// From now on passes are recorded as CUDA graphs and replayed, where `wanted` and they can be: on
/// a CUDA device, of one rank, in one part and without a margin softmax, whose losses the host
/// sees.
void record_passes(Setup& setup, bool wanted);

/// One batch as tensors on the setup's device, in its memory format. On the CPU the images are a
/// view into `batch`, which must outlive them. Without `wait` a copy to a device is queued on the
/// current stream, and `batch` must stay as it is until it is done.
models::Minibatch to_minibatch(const Setup& setup, data::Batch& batch, bool wait = true);

/// How batches of one epoch are prepared.
data::LoaderOptions loader_options(const Setup& setup);

/// The shuffled order of the training set.
data::Order training_order(const Setup& setup);

}  // namespace dimred::training
