#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>

#include "models/autograd.h"
#include "models/batch_norm_layer.h"

namespace dimred::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const std::vector<std::int64_t> over_pixels{0, 2, 3};

/// [C] shaped to multiply [B, C, H, W].
torch::Tensor per_channel(const torch::Tensor& values) { return values.view({1, -1, 1, 1}); }

/// Mean and biased variance [C] of the global batch and its number of values a channel, float64.
struct Statistics {
  torch::Tensor mean, variance;
  double count = 0;
};

Statistics global_statistics(const torch::Tensor& x, const SumOverRanks& sum_over_ranks) {
  const auto channels = x.size(1);
  const auto pixels = x.numel() / channels;
  const double count = pixels;
  auto sums = torch::zeros({2 * channels + 1}, x.options().dtype(torch::kFloat64));
  if (count > 0) {
    // Sums about the local mean, so that float32 values of a large mean lose nothing.
    const auto [variance, mean] = torch::var_mean(x.to(torch::kFloat32), over_pixels, false);
    const auto m = mean.to(torch::kFloat64);
    sums.narrow(0, 0, channels).copy_(m * count);
    sums.narrow(0, channels, channels).copy_((variance.to(torch::kFloat64) + m * m) * count);
    sums[2 * channels].fill_(count);
  }
  sum_over_ranks(sums);
  Statistics result{.count = sums[2 * channels].item<double>()};
  result.mean = sums.narrow(0, 0, channels) / result.count;
  result.variance =
      (sums.narrow(0, channels, channels) / result.count - result.mean.square()).clamp_min(0);
  return result;
}

/// Keeps the sum alive as long as a graph that needs it in its backward pass.
struct SumHolder : torch::CustomClassHolder {
  explicit SumHolder(SumOverRanks sum) : over_ranks(std::move(sum)) {}
  SumOverRanks over_ranks;
};

/// y = weight (x - mean) / sqrt(variance + eps) + bias with statistics that depend on all ranks' x.
struct GlobalNorm : torch::autograd::Function<GlobalNorm> {
  static torch::Tensor forward(AutogradContext* context,
                               const torch::Tensor& x,
                               const torch::Tensor& weight,
                               const torch::Tensor& bias,
                               const Statistics& statistics,
                               double eps,
                               const SumOverRanks& sum_over_ranks) {
    const auto mean = statistics.mean.to(torch::kFloat32);
    const auto scale = (statistics.variance + eps).rsqrt().to(torch::kFloat32);
    context->save_for_backward({x, weight, mean, scale});
    context->saved_data["count"] = statistics.count;
    context->saved_data["sum"] =
        torch::IValue::make_capsule(torch::make_intrusive<SumHolder>(sum_over_ranks));
    const auto normal = (x.to(torch::kFloat32) - per_channel(mean)) * per_channel(scale);
    return (normal * per_channel(weight) + per_channel(bias)).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &mean = saved[2], &scale = saved[3];
    const auto channels = x.size(1);
    const auto gradient = gradients[0].to(torch::kFloat32);
    const auto normal = (x.to(torch::kFloat32) - per_channel(mean)) * per_channel(scale);
    const auto bias_gradient = gradient.sum(over_pixels);
    const auto weight_gradient = (gradient * normal).sum(over_pixels);
    auto sums = torch::cat({bias_gradient, weight_gradient}).to(torch::kFloat64);
    const auto held = context->saved_data["sum"].toCapsule();
    static_cast<const SumHolder&>(*held).over_ranks(sums);
    const auto means = (sums / context->saved_data["count"].toDouble()).to(torch::kFloat32);
    const auto x_gradient =
        per_channel(weight * scale) * (gradient - per_channel(means.narrow(0, 0, channels)) -
                                       normal * per_channel(means.narrow(0, channels, channels)));
    return {x_gradient.to(x.scalar_type()), weight_gradient, bias_gradient, {}, {}, {}};
  }
};

}  // namespace

torch::Tensor global_batch_norm(const torch::Tensor& input,
                                const BatchNormTensors& layer,
                                std::optional<double> momentum,
                                double eps,
                                const SumOverRanks& sum_over_ranks) {
  const auto channels = input.size(1);
  const auto pixels = input.numel() / std::max<std::int64_t>(1, input.size(0) * channels);
  const auto x = input.dim() == 4 ? input : input.reshape({input.size(0), channels, pixels, 1});
  const auto statistics = global_statistics(x.detach(), sum_over_ranks);
  if (statistics.count == 0) return input;  // no rank has a sample in this pass
  if (layer.running_mean.defined()) {
    const torch::NoGradGuard no_grad;
    if (layer.counter.defined()) layer.counter.add_(1);
    const double part = momentum ? *momentum : 1.0 / layer.counter.item<double>();
    const double unbiased = statistics.count / std::max(1.0, statistics.count - 1);
    layer.running_mean.lerp_(statistics.mean.to(torch::kFloat32), part);
    layer.running_var.lerp_((statistics.variance * unbiased).to(torch::kFloat32), part);
  }
  const auto options = torch::device(input.device()).dtype(torch::kFloat32);
  const auto or_fill = [&](const torch::Tensor& values, double fill) {
    return values.defined() ? values : torch::full({channels}, fill, options);
  };
  const auto output = applied<GlobalNorm>(
      x, or_fill(layer.weight, 1), or_fill(layer.bias, 0), statistics, eps, sum_over_ranks);
  return input.dim() == 4 ? output : output.view_as(input);
}

torch::Tensor BatchNorm2dImpl::forward(const torch::Tensor& input) {
  if (!is_training() || !sum_over_ranks) return torch::nn::BatchNorm2dImpl::forward(input);
  return global_batch_norm(input,
                           {weight, bias, running_mean, running_var, num_batches_tracked},
                           options.momentum(),
                           options.eps(),
                           sum_over_ranks);
}

}  // namespace dimred::models
