#pragma once

#include "engine/device/device_stream.h"
#include "engine/setup.h"
#include "method/presets.h"

namespace dimred::stage2 {

/// weight_decay |w|^2 / 2 over the columns that decay, under way on the device.
struct PendingDecay {
  double weight_decay = 0;
  engine::HostCopy replicated;  // |w|^2 by its parts
  engine::HostCopy sharded;     // of own columns; none where nothing is sharded
  std::shared_ptr<distributed::TensorCommunicator> communicator;

  /// Gives the same bits on every rank; all ask at the same point.
  double get() const;
};

/// The penalty of the present weights. Cost: one read of w where weight_decay > 0.
PendingDecay start_decay_loss(const engine::Setup& setup, const method::PenaltyOptions& penalty);

/// Adds the penalty's gradient to own columns.
void add_decay(const engine::Model& model,
               const method::PenaltyOptions& penalty,
               torch::Tensor& own_gradient);

}  // namespace dimred::stage2
