#include "engine/heads/margin_head.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <numbers>

#include "engine/heads/class_sharded_softmax.h"
#include "models/autograd.h"
#include "support/random.h"

namespace dimred::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A loss whose gradients are known: backward hands them on, times its own.
struct WithGradients : torch::autograd::Function<WithGradients> {
  static torch::Tensor forward(AutogradContext* context,
                               const torch::Tensor& /*features*/,
                               const torch::Tensor& /*weights*/,
                               const torch::Tensor& loss,
                               const torch::Tensor& feature_gradient,
                               const torch::Tensor& weight_gradient) {
    context->save_for_backward({feature_gradient, weight_gradient});
    return loss.clone();
  }
  static variable_list backward(AutogradContext* context, const variable_list& outer) {
    const auto saved = context->get_saved_variables();
    const auto times = outer[0].to(torch::kFloat32);
    return {saved[0] * times, saved[1] * times, {}, {}, {}};
  }
};

/// Row `row` of the weights as drawn.
void draw_row(std::uint64_t seed, std::int64_t row, double deviation, std::span<float> values) {
  RandomStream stream(seed, RandomPurpose::initialization, /*epoch=*/1, row);
  for (std::size_t i = 0; i < values.size(); i += 2) {  // Box and Muller: two at a time
    const double radius = std::sqrt(-2 * std::log1p(-stream.uniform()));
    const double angle = 2 * std::numbers::pi * stream.uniform();
    values[i] = deviation * radius * std::cos(angle);
    if (i + 1 < values.size()) values[i + 1] = deviation * radius * std::sin(angle);
  }
}

class MarginHead final : public models::Head {
 public:
  MarginHead(const models::HeadOptions& options,
             std::int64_t classes,
             std::uint64_t seed,
             const std::shared_ptr<distributed::TensorCommunicator>& communicator,
             torch::Device device)
      : communicator_(communicator),
        margin_(models::resolved(options.margin)),
        sampling_{.ratio = options.sampling_ratio, .seed = seed},
        range_(class_range(classes, communicator->rank(), communicator->size())) {
    const auto width = options.embedding_size;
    const double deviation = std::sqrt(2.0 / (width + classes));
    auto weights = torch::empty({range_.size(), width});
    const std::span values(weights.mutable_data_ptr<float>(), weights.numel());
    for (std::int64_t row = 0; row < range_.size(); ++row) {
      draw_row(seed, range_.begin + row, deviation, values.subspan(row * width, width));
    }
    weights_ = weights.to(device).requires_grad_();
  }

  models::Evaluation evaluate(const torch::Tensor& features,
                              const torch::Tensor& labels,
                              models::Mode mode) override {
    const bool training = mode == models::Mode::train;
    const auto sampling = training ? sampling_ : models::ClassSampling{};
    const bool with_gradients = torch::GradMode::is_enabled();
    auto result = class_sharded_softmax(
        features, labels, weights_, range_, margin_, sampling, *communicator_, with_gradients);
    const bool first = communicator_->rank() == 0;
    const double samples = result.samples;
    auto loss = torch::full({}, first ? result.loss * samples : 0, torch::kFloat64);
    if (with_gradients) {
      // Gradients of the sum over the batch, of which the caller takes the mean.
      const auto by_weights =
          result.sampled.defined()
              ? torch::zeros_like(weights_).index_copy_(0, result.sampled, result.weight_gradient)
              : result.weight_gradient;
      loss = models::applied<WithGradients>(features,
                                            weights_,
                                            loss,
                                            result.feature_gradient.mul_(samples),
                                            by_weights.mul_(samples));
    }
    return {loss, labels.size(0), torch::full({}, first ? result.correct : 0, torch::kInt64)};
  }

  std::vector<models::NamedTensor> parameters() override {
    const bool sharded = communicator_->size() > 1;
    return {
        {models::head_weights, weights_, sharded ? range_.classes : 0, sharded ? range_.begin : 0}};
  }

  std::int64_t feature_size() const override { return weights_.size(1); }
  bool needs_all_ranks() const override { return communicator_->size() > 1; }

  void begin_pass(std::int64_t epoch, std::int64_t step, std::int64_t pass) override {
    RandomStream stream(sampling_.seed, RandomPurpose::classes, epoch, step);
    for (std::int64_t i = 0; i < pass; ++i) stream.next();
    sampling_.step = stream.next();
  }

 private:
  std::shared_ptr<distributed::TensorCommunicator> communicator_;
  models::Margin margin_;
  models::ClassSampling sampling_;
  ClassRange range_;
  torch::Tensor weights_;  // [range_.size(), D]
};

}  // namespace

std::shared_ptr<models::Head> margin_head(
    const models::HeadOptions& options,
    std::int64_t classes,
    std::uint64_t seed,
    const std::shared_ptr<distributed::TensorCommunicator>& communicator,
    torch::Device device) {
  return std::make_shared<MarginHead>(options, classes, seed, communicator, device);
}

}  // namespace dimred::engine
