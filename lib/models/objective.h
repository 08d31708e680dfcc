#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/autocast.h"
#include "models/batch_norm.h"
#include "models/loss.h"

namespace dimred::models {

struct Network;

enum class Mode { train, evaluate };  // batch statistics and dropout, or running statistics

struct Minibatch {
  torch::Tensor images;  // [batch, channels, height, width] float32
  torch::Tensor labels;  // [batch] int64
};

/// Sums over the samples, so that sums over ranks and batches stay exact means of samples.
struct Evaluation {
  torch::Tensor loss_sum;  // scalar float64, differentiable
  std::int64_t sample_count = 0;
  torch::Tensor correct_count;  // scalar int64
};

struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
  // For a parameter of which this rank has some rows only: the number of all rows, and its first
  // one.
  std::int64_t global_rows = 0;
  std::int64_t first_row = 0;
};

/// The name of a head's weights, the last of the parameters; "margin_head.weight" behind a network
/// that has this name.
inline constexpr auto head_weights = "head.weight";

/// A last layer with its loss, behind a network whose outputs are features.
class Head {
 public:
  virtual ~Head() = default;
  /// features [batch, D], labels [batch]. A head over ranks is called by all of them together; each
  /// gets its part of the sums.
  virtual Evaluation evaluate(const torch::Tensor& features,
                              const torch::Tensor& labels,
                              Mode mode) = 0;
  virtual std::vector<NamedTensor> parameters() = 0;
  virtual std::int64_t feature_size() const = 0;  // D
  /// Other ranks wait for this one at every batch, also when it has no sample of it.
  virtual bool needs_all_ranks() const = 0;
  /// Which random draws the batches make that come next: the same for the same numbers.
  virtual void begin_pass(std::int64_t epoch, std::int64_t step, std::int64_t pass) = 0;
};

/// All that the trainers know of a network: model, head and loss behind one function of the
/// weights.
class Objective {
 public:
  virtual ~Objective() = default;
  /// In evaluate mode without label smoothing, so that losses of runs with different smoothing
  /// compare.
  virtual Evaluation evaluate(const Minibatch& batch, Mode mode) = 0;
  /// The network's output: logits, or features where a head comes behind it.
  virtual torch::Tensor logits(const torch::Tensor& images, Mode mode) = 0;
  /// The head behind the network; null where there is none.
  virtual Head* head() = 0;
  /// The parameters that train, in registration order; unless something is frozen, equal to
  /// Python's named_parameters() and named_buffers() of the twin.
  virtual std::vector<NamedTensor> parameters() = 0;
  virtual std::vector<NamedTensor> buffers() = 0;
  /// The tensors that freeze() took out of these: parameters, then running statistics.
  virtual std::vector<NamedTensor> frozen() = 0;
  /// From now on the parameters of these names get no gradient. A BatchNorm layer whose weight and
  /// bias are both frozen normalises by its running statistics in train mode, too, and no longer
  /// moves them: it stays the function that it was. Dropout stays as it is. Call once, before
  /// flatten().
  virtual void freeze(const std::function<bool(const std::string&)>& is_frozen) = 0;
  /// The number of BatchNorm layers that are not frozen.
  virtual int batchnorm_layers() = 0;
  /// How running statistics move in train mode: by each layer's own momentum, or as the cumulative
  /// mean since they were reset.
  virtual void set_cumulative_batchnorm(bool cumulative) = 0;
  /// Running statistics and their counters to zero; a network's other buffers stay.
  virtual void reset_running_statistics() = 0;
  /// The floating buffers that training never changes, themselves, which sums over ranks would
  /// round. Only TorchScript modules have some.
  virtual std::vector<torch::Tensor> constants() = 0;
  /// From now on BatchNorm normalises by the statistics of the global batch.
  virtual void synchronize_batchnorm(const SumOverRanks& sum) = 0;
};

/// Parameters, frozen tensors and buffers.
std::vector<NamedTensor> all_tensors(Objective& objective);

struct ObjectiveOptions {
  LossOptions loss;
  Precision precision = Precision::float32;
  AmpLists amp = {};
  std::shared_ptr<Head> head = nullptr;  // in place of cross-entropy
};

/// A torch::nn network with cross-entropy, or a head; under bfloat16 and float16 the forward pass
/// runs in autocast, weights and loss stay float32, and the autocast cache is cleared after each
/// pass (it would go stale when the weights change). Takes channels_last images to match
/// channels_last weights.
std::unique_ptr<Objective> classifier(std::shared_ptr<Network> network,
                                      const ObjectiveOptions& options);

/// True where bfloat16 arithmetic is native: AVX512-BF16 or AMX on the CPU, any CUDA device we
/// build for.
bool has_native_bfloat16(torch::Device device);

}  // namespace dimred::models
