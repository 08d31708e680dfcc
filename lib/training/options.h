#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/presets.h"
#include "launch/options.h"
#include "layout/layout.h"
#include "models/initialization.h"
#include "models/margin.h"
#include "models/objective.h"
#include "options/options.h"
#include "training/passes/loss_scale.h"

namespace dimred::training {

/// The division of data between ranks. samples: each global batch, so that any number of ranks sees
/// the same batches. files: each rank has files of its own, which gives that up.
enum class Sharding { samples, files };

struct DataOptions {
  std::filesystem::path data;  // folder, list or pattern; empty: Debian's Fashion-MNIST
  std::string dataset = "auto";
  std::filesystem::path test_data;   // empty: found at `data`
  std::filesystem::path data_cache;  // of indices and decompressed copies; empty: chosen
  double stream_cache = 0;           // GB; 0: a URL's data is downloaded before the run
  std::int64_t stream_fetches = 4;   // files fetched at a time
  std::int64_t labels_offset = 0;    // of tfrecord and base64: label = stored label - labels_offset
  std::int64_t shuffle_buffer_size =
      0;  // of data in several files: 0: global shuffle; else windows
  Sharding shard = Sharding::samples;
  std::int64_t num_classes = 0;               // 0: what the data has
  std::vector<double> mock_shape{3, 32, 32};  // channels, height, width of dataset = mock
  bool datasets_use_caching = true;           // keep images of one size decoded in memory,
  double cache_memory = 4;                    // of the two sets each up to this number of GB
  double validation_fraction = 0;             // [0, 1), held out of the training set by split_seed
  std::optional<std::int64_t> split_seed;     // unset: the run's seed
  std::int64_t num_samples = 0;               // 0: not checked; of the mock set: 50,000
  std::int64_t train_samples = 0;             // 0: all; else this number, evenly spread
  std::int64_t test_samples = 0;              // the same
  std::optional<data::Recipe> preprocessing_name;  // unset (auto): as the data needs it
  std::int64_t image_size = 0;  // 0: the recipe's own where it cuts, or the data's
  /// For photographs, where preprocessing_name and image_size are unset: what the network was made
  /// for; resolve() fills it in. none: nothing is known of the network.
  data::Recipe photograph_recipe = data::Recipe::none;
  std::int64_t photograph_size = 0;
  std::int64_t pad = 0;  // pad-crop augmentation, pixels, if > 0 instead of the recipe's
  bool flip = false;     // random horizontal flip, if the recipe has none
  std::vector<double> colour_jitter;   // brightness, contrast, saturation, each >= 0; empty: none
  bool skip_bad_samples = false;       // on_bad_sample
  std::filesystem::path described_by;  // a run whose manifest.json stands in for data that are
                                       // gone: classes and normalisation, no samples; empty: none
};

enum class PrecisionChoice { float32, bfloat16, float16, automatic };

/// Whose batch statistics BatchNorm normalises by in train mode, and whose running statistics stay.
/// averaged: each rank's own part of the batch; running statistics are averaged over ranks at every
/// step. rank0: each its own; rank 0's stay. synchronized: the global batch's.
enum class BatchNormPolicy { averaged, rank0, synchronized };

struct ModelOptions {
  std::string model = "convnet";  // a network's name, or a TorchScript module's file
  std::string for_photographs;    // taken instead where the data choose a photograph_recipe; empty:
                                  // `model` stays
  std::string model_digest;       // of that file; empty: not known yet, or no file
  bool any_outputs = false;       // of such a module: an embedding will do, no row of the table
  PrecisionChoice precision = PrecisionChoice::float32;
  std::string amp_allow, amp_deny;  // comma-separated operators (models::AmpLists)
  layout::MemoryFormat memory_format =
      layout::MemoryFormat::channels_last;  // ConvNet: 3,314, not 2,814 images/s on 2 cores
  BatchNormPolicy batchnorm_statistics = BatchNormPolicy::averaged;
  models::BatchNormConstants batch_norm;  // unset: the network's
  models::Initialization initialization = models::Initialization::network;
  std::string trainable_include_patterns;  // of parameters (models/name_patterns.h); empty: all
  std::string trainable_exclude_patterns;  // of these; the others are frozen and leave M
};

/// Place at which batches are made. automatic: on a CUDA device, of sets that can be kept there.
enum class DataOnDevice { automatic, yes, no };

/// TensorBoard's event files in the run folder.
struct EventOptions {
  bool tensorboard = false;
  std::int64_t tensorboard_steps = 0;  // of steps.csv, the steps that are multiples of it; 0: none
};

/// The batch of all ranks that the default learning rate is meant for, and a rank's default.
inline constexpr std::int64_t usual_batch_size = 64;

struct RunOptions {
  std::filesystem::path output;  // the run folder
  std::int64_t epochs = 1;
  std::optional<std::int64_t> batch_size;  // samples per rank and step; unset: usual_batch_size
  std::optional<std::int64_t> global_batch_size;  // over all ranks; a multiple of their number
  std::int64_t gradient_accumulation = 1;         // passes that a rank's batch is split into
  std::int64_t seed = 1;
  std::int64_t threads = 0;    // 0: all cores this process may use
  std::string device = "cpu";  // cpu, cuda, cuda:1, auto
  DataOnDevice data_on_device = DataOnDevice::automatic;
  bool cuda_graphs = true;
  bool tf32 = false;                           // of float32 products on CUDA
  bool cudnn_autotune = false;                 // excludes deterministic
  bool deterministic = false;                  // needs threads >= 1
  std::int64_t prefetch = 4;                   // batches prepared ahead
  double prefetch_memory = 2;                  // GB that they may take
  std::int64_t num_preprocessing_threads = 0;  // 0: this rank's share of the cores
  std::int64_t num_parallel_batches = 0;       // 0: as many as prefetch
  EventOptions events;
  bool quiet = false;
};

/// The options that both stages and `evaluate` share, and the rows of their option table.
struct CommonOptions {
  DataOptions data;
  ModelOptions model;
  models::LossOptions loss;
  models::HeadOptions head;
  LossScaleOptions loss_scale;
  RunOptions run;
  launch::ConnectOptions ranks;
};

void add_data_options(OptionTable& table, DataOptions& options);
/// The operators of both texts; models::validate() says which are none.
models::AmpLists amp_lists(const ModelOptions& options);

void add_model_options(OptionTable& table, ModelOptions& options);
void add_loss_options(OptionTable& table, CommonOptions& options);  // of training, and of the head
void add_compute_options(OptionTable& table, RunOptions& options);  // batch, threads, device
void add_run_options(OptionTable& table, RunOptions& options, std::int64_t least_epochs = 1);
/// Adds the rows of the stage that writes steps.csv.
void add_step_event_options(OptionTable& table, EventOptions& options);

/// Determines values that depend on the run's other options, on the machine or on the number of
/// ranks, so that config.toml says it and a command that adopts the options means the same:
/// split_seed, precision = auto, float16's loss scale, both batch sizes, a
/// TorchScript module's place and digest, an image_size that `table` was not given. Throws
/// std::invalid_argument for batch sizes that the ranks do not fit, for options that contradict
/// each other, and for a module that is not there or has another digest than the one given.
void resolve(CommonOptions& options, int ranks, const OptionTable& table);

}  // namespace dimred::training
