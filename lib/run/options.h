#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "engine/data_sets.h"
#include "engine/model.h"
#include "launch/options.h"
#include "models/loss.h"
#include "models/margin.h"
#include "options/options.h"

namespace dimred::run {

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
  engine::DataOnDevice data_on_device = engine::DataOnDevice::automatic;
  bool cuda_graphs = true;
  bool tf32 = false;            // of float32 products on CUDA
  bool cudnn_autotune = false;  // excludes deterministic
  bool deterministic = false;   // needs threads >= 1
  engine::PrefetchOptions prefetching;
  EventOptions events;
  bool quiet = false;
};

/// The options that both stages and `evaluate` share, and the rows of their option table.
struct CommonOptions {
  engine::DataOptions data;
  std::filesystem::path described_by;  // a run whose manifest.json stands in for data that are
                                       // gone: classes and normalisation, no samples; empty: none
  engine::ModelOptions model;
  models::LossOptions loss;
  models::HeadOptions head;
  engine::LossScaleOptions loss_scale;
  RunOptions run;
  launch::ConnectOptions ranks;
};

void add_data_options(OptionTable& table, engine::DataOptions& options);
void add_model_options(OptionTable& table, engine::ModelOptions& options);
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

}  // namespace dimred::run
