#pragma once

#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "models/objective.h"
#include "training/device_graph.h"

namespace dimred::training {

/// A pass over a minibatch whose work on the device depends on nothing on the host but the batch's
/// size. `scale` [] float64 is what the mean loss is multiplied by. Returns [2] float64: sums over
/// the samples of loss and hits.
using Pass =
    std::function<torch::Tensor(const models::Minibatch& batch, const torch::Tensor& scale)>;

/// A pass that is recorded after a few batches of one size and replayed from then on; batches of
/// another size, as an epoch's last one, go through it as it is.
class RecordedPass {
 public:
  /// `failure`, which other passes may share, outlives it: while it says something, nothing is
  /// recorded, and what cannot be recorded goes there. So do draws of the CPU's random generator
  /// within the pass, which a replay would not make again.
  RecordedPass(MakeGraph make, std::string& failure) : make_(std::move(make)), failure_(failure) {}

  /// The same sums, and the same effects, as pass(batch, scale). `pass` must be the same function
  /// at every call, on the same tensors. The sums are to be read before another pass is run.
  torch::Tensor run(const models::Minibatch& batch, double scale, const Pass& pass);

  bool is_recorded() const { return graph_ != nullptr; }

 private:
  void record(const models::Minibatch& batch, const Pass& pass);

  MakeGraph make_;
  std::string& failure_;
  std::map<std::int64_t, std::int64_t> seen_;  // batches by their size
  std::unique_ptr<DeviceGraph> graph_;
  models::Minibatch batch_;  // that the graph reads
  torch::Tensor scale_, sums_;
};

/// The passes of a setup.
struct PassGraphs {
  std::string failure;  // why a pass could not be recorded; empty: none has been tried in vain
  bool told = false;    // of it
  RecordedPass gradient, loss;

  explicit PassGraphs(const MakeGraph& make) : gradient(make, failure), loss(make, failure) {}
  PassGraphs(const PassGraphs&) = delete;
  PassGraphs& operator=(const PassGraphs&) = delete;
};

}  // namespace dimred::training
