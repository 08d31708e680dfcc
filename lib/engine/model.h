#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/loader.h"
#include "distributed/columns.h"
#include "engine/device/device.h"
#include "engine/device/pass_graphs.h"
#include "engine/passes/loss_scale.h"
#include "layout/layout.h"
#include "models/flat.h"
#include "models/initialization.h"
#include "models/objective.h"

namespace dimred::engine {

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

/// The network and the vectors behind it, and how its passes are made.
struct Model {
  std::unique_ptr<models::Objective> objective;
  models::FlatVectors flat;
  distributed::Columns columns;  // of the flat vectors, by rank
  torch::Device device = torch::kCPU;
  layout::MemoryFormat memory_format = layout::MemoryFormat::contiguous;
  models::Precision precision = models::Precision::float32;
  LossScale loss_scale;
  std::shared_ptr<PassGraphs> graphs;  // null: passes are not recorded
  BatchNormPolicy batchnorm_statistics = BatchNormPolicy::averaged;
  int batchnorm_layers = 0;
  std::int64_t gradient_accumulation = 1;
  std::string logits;  // names of the network's last layers, as NetworkInfo has them
  // Digest of what is frozen, which weights from elsewhere must share; empty: nothing is.
  std::string frozen_digest;
};

/// The operators of both texts; models::validate() says which are none.
models::AmpLists amp_lists(const ModelOptions& options);

/// Throws std::runtime_error for a running variance of BatchNorm that is below 0: the scale is then
/// NaN, or, within BatchNorm's epsilon, wrong. `what` begins the message: what has the variance.
void require_variances(const Model& model, std::string_view what);

/// The precision meant on that device. Throws std::invalid_argument for bfloat16 where it is not
/// native ("auto" falls back to float32) and for float16 without CUDA.
models::Precision choose_precision(PrecisionChoice choice, torch::Device device);

/// The memory format of the images that the model takes.
torch::MemoryFormat tensor_format(const Model& model);

/// One batch as tensors on the model's device, in its memory format. On the CPU the images are a
/// view into `batch`, which must outlive them. Without `wait` a copy to a device is queued on the
/// current stream, and `batch` must stay as it is until it is done.
models::Minibatch to_minibatch(const Model& model, data::Batch& batch, bool wait = true);

}  // namespace dimred::engine
