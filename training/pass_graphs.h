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
  using MakeGraph = std::function<std::unique_ptr<DeviceGraph>()>;
  explicit RecordedPass(MakeGraph make) : make_(std::move(make)) {}

  /// The same sums, and the same effects, as pass(batch, scale). `pass` must be the same function
  /// at every call, on the same tensors.
  torch::Tensor run(const models::Minibatch& batch, double scale, const Pass& pass);

  bool is_recorded() const { return graph_ != nullptr; }
  /// Why it could not be recorded; empty when it was, or it is too early to say.
  const std::string& failure() const { return failure_; }

 private:
  void record(const models::Minibatch& batch, const Pass& pass);

  MakeGraph make_;
  std::map<std::int64_t, std::int64_t> seen_;  // batches by their size
  std::unique_ptr<DeviceGraph> graph_;
  models::Minibatch batch_;  // that the graph reads
  torch::Tensor scale_, sums_;
  std::string failure_;
};

/// The passes of a setup.
struct PassGraphs {
  RecordedPass gradient, loss;
  bool told = false;  // of a failure

  explicit PassGraphs(const RecordedPass::MakeGraph& make) : gradient(make), loss(make) {}
  std::string failure() const {
    return gradient.failure().empty() ? loss.failure() : gradient.failure();
  }
};

}  // namespace dimred::training
