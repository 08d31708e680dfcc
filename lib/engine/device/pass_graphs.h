#pragma once

#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/device/device_graph.h"
#include "models/objective.h"

namespace dimred::engine {

/// Work on a device that depends on nothing on the host: recorded after it was done a few times,
/// and replayed from then on.
class RecordedWork {
 public:
  /// `failure`, which others may share, outlives it: while it says something, nothing is recorded,
  /// and what cannot be recorded goes there. So do draws of the CPU's random generator within the
  /// work, which a replay would not make again.
  RecordedWork(MakeGraph make, std::string& failure) : make_(std::move(make)), failure_(failure) {}

  /// work(), or the same effects. It must be the same function at every call, on the same tensors.
  void run(const std::function<void()>& work);

  bool is_recorded() const { return graph_ != nullptr; }

  /// False: it could not be recorded, now or before.
  bool record(const std::function<void()>& work);
  void replay() { graph_->replay(); }
  const std::string& failure() const { return failure_; }

 private:
  MakeGraph make_;
  std::string& failure_;
  std::int64_t done_ = 0;
  std::unique_ptr<DeviceGraph> graph_;
};

/// A pass over a minibatch whose work on the device depends on nothing on the host but the batch's
/// size. `scale` [] float64 is what the mean loss is multiplied by. Returns [2] float64: sums over
/// the samples of loss and correct count.
using Pass =
    std::function<torch::Tensor(const models::Minibatch& batch, const torch::Tensor& scale)>;

/// A pass's `scale`.
torch::Tensor scale_on(torch::Device device, double scale);

/// A pass that is recorded after a few batches of one size; batches of another size, as an epoch's
/// last one, go through it as it is.
class RecordedPass {
 public:
  RecordedPass(const MakeGraph& make, std::string& failure) : work_(make, failure) {}

  /// Returns the sums of pass(batch, scale), with its effects; `pass` must be the same function at
  /// every call, on the same tensors. The sums are to be read, or their reading queued, before
  /// anything else that the setup records is run.
  torch::Tensor run(const models::Minibatch& batch, double scale, const Pass& pass);

  bool is_recorded() const { return work_.is_recorded(); }

 private:
  void record(const models::Minibatch& batch, const Pass& pass);

  RecordedWork work_;
  std::map<std::int64_t, std::int64_t> seen_;  // batches by their size
  models::Minibatch batch_;                    // that the graph reads
  torch::Tensor scale_, sums_;
};

/// The passes of a setup, and what else is to be recorded beside them.
class PassGraphs {
 public:
  std::string failure;    // why something could not be recorded; empty: nothing was tried in vain
  bool reported = false;  // the failure was printed
  RecordedPass gradient, loss;

  explicit PassGraphs(MakeGraph make)
      : gradient(make, failure), loss(make, failure), make_(std::move(make)) {}
  PassGraphs(const PassGraphs&) = delete;
  PassGraphs& operator=(const PassGraphs&) = delete;

  /// Work of somebody who owns what it is done on, and whom this outlives.
  RecordedWork work() { return {make_, failure}; }

 private:
  MakeGraph make_;
};

}  // namespace dimred::engine
