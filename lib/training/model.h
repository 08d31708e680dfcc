#pragma once

#include <memory>

#include "data/loader.h"
#include "distributed/columns.h"
#include "models/flat.h"
#include "training/device/device.h"
#include "training/device/pass_graphs.h"
#include "training/options.h"

namespace dimred::training {

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

/// The precision meant on that device. Throws std::invalid_argument for bfloat16 where it is not
/// native ("auto" falls back to float32) and for float16 without CUDA.
models::Precision choose_precision(PrecisionChoice choice, torch::Device device);

/// The memory format of the images that the model takes.
torch::MemoryFormat tensor_format(const Model& model);

/// One batch as tensors on the model's device, in its memory format. On the CPU the images are a
/// view into `batch`, which must outlive them. Without `wait` a copy to a device is queued on the
/// current stream, and `batch` must stay as it is until it is done.
models::Minibatch to_minibatch(const Model& model, data::Batch& batch, bool wait = true);

}  // namespace dimred::training
