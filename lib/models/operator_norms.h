#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "models/batch_norm.h"

namespace dimred::models {

/// BatchNorm where a network's layers are operators of a graph, so that nobody can ask a module for
/// its momentum or its buffers: what the operators have shown, and what they are told.
struct OperatorNorms {
  SumOverRanks sum_over_ranks;  // empty: each rank normalises by its own part of the batch
  bool cumulative = false;      // running statistics become the mean since set_cumulative

  /// Seen in train mode; handles on the network's own buffers.
  struct Layer {
    torch::Tensor running_mean, running_var;
    std::int64_t batches = 0;  // since set_cumulative
  };
  std::vector<Layer> layers;
  std::vector<torch::Tensor> others;     // floating buffers that training moves beside these
  std::vector<torch::Tensor> counters;   // num_batches_tracked of each, where there is one
  std::vector<torch::Tensor> constants;  // floating buffers that training leaves alone

  /// Whether a tensor is one of the layers' statistics.
  bool has(const torch::Tensor& buffer) const;
  void set_cumulative(bool on);
  void reset_running_statistics();
};

/// While it lives, dimred::batch_norm in this thread obeys `norms` and reports its layers there.
class OperatorNormsScope {
 public:
  explicit OperatorNormsScope(OperatorNorms& norms);
  ~OperatorNormsScope();
  OperatorNormsScope(const OperatorNormsScope&) = delete;
  OperatorNormsScope& operator=(const OperatorNormsScope&) = delete;

 private:
  OperatorNorms* before_;
};

/// The operator dimred::batch_norm with the arguments of aten::batch_norm, whose place it takes in
/// a graph. In evaluation, and where nothing is asked for, it is that operator.
inline constexpr auto batch_norm_operator = "dimred::batch_norm";

}  // namespace dimred::models
