#include "models/margin_softmax.h"

#include <ATen/ops/bmm.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/errors.h"

namespace dimred::models {
namespace {

constexpr double none = -std::numeric_limits<double>::infinity();
constexpr std::int64_t panel_numbers = 1 << 20;

constexpr double shortest = 1e-12;

/// 1 / length of each row; 0 for one that is too short.
torch::Tensor inverse_lengths(const torch::Tensor& rows) {
  const auto lengths = at::linalg_vector_norm(rows, 2, at::IntArrayRef{1});
  return torch::where(lengths >= shortest, lengths.reciprocal(), torch::zeros_like(lengths));
}

/// Products a_i b_i of rows [n], without a matrix of the products of numbers.
torch::Tensor row_products(const torch::Tensor& a, const torch::Tensor& b) {
  return at::bmm(a.unsqueeze(1), b.unsqueeze(2)).view({-1});
}

/// Cosines closer to 1 than their own rounding have sines below this.
double least_sine(torch::ScalarType type) {
  return std::sqrt(type == torch::kFloat64 ? std::numeric_limits<double>::epsilon()
                                           : std::numeric_limits<float>::epsilon());
}

/// m [N], in the matrix's own type, so that nothing is rounded when it is subtracted.
torch::Tensor shift_of(const torch::Tensor& maxima, torch::ScalarType type) {
  return maxima.amax(0).to(type);
}

/// Sums of the rows in float64, a few rows at a time: a float64 copy of all would double the
/// memory.
torch::Tensor row_sums(const torch::Tensor& matrix) {
  auto sums = torch::zeros({matrix.size(0)}, matrix.options().dtype(torch::kFloat64));
  const auto step =
      std::max<std::int64_t>(1, panel_numbers / std::max<std::int64_t>(1, matrix.size(1)));
  for (std::int64_t row = 0; row < matrix.size(0); row += step) {
    const auto rows = std::min(step, matrix.size(0) - row);
    sums.narrow(0, row, rows).copy_(matrix.narrow(0, row, rows).sum(1, false, torch::kFloat64));
  }
  return sums;
}

}  // namespace

UnitRows unit_rows(const torch::Tensor& rows, const Margin& margin) {
  if (!margin.normalized) return {rows, {}};
  const auto inverse = inverse_lengths(rows);
  return {rows * inverse.unsqueeze(1), inverse};
}

torch::Tensor unit_rows_backward(const UnitRows& unit, const torch::Tensor& gradient) {
  if (!unit.inverse_lengths.defined()) return gradient;
  const auto along = row_products(unit.rows, gradient);
  return (gradient - unit.rows * along.unsqueeze(1)).mul_(unit.inverse_lengths.unsqueeze(1));
}

MarginBlock::MarginBlock(torch::Tensor features,
                         const torch::Tensor& labels,
                         torch::Tensor weights,
                         const Margin& margin)
    : margin_(margin), features_(std::move(features)), weights_(std::move(weights)) {
  matrix_ = torch::mm(features_, weights_.t());
  if (margin_.normalized) {
    inverse_lengths_ = inverse_lengths(weights_);
    matrix_.mul_((inverse_lengths_ * margin_.scale).unsqueeze(0));
    matrix_.clamp_(-margin_.scale, margin_.scale);  // rounding alone passes these
  }
  rows_ = ((labels >= 0) & (labels < weights_.size(0))).nonzero().view({-1});
  columns_ = labels.index_select(0, rows_);
  plain_ = matrix_.index({rows_, columns_}).to(torch::kFloat64);
  target_ = margin_.normalized ? with_margin((plain_ / margin_.scale).clamp(-1, 1),
                                             margin_,
                                             least_sine(matrix_.scalar_type()))
                               : MarginValues{plain_, torch::ones_like(plain_)};
  matrix_.index_put_({rows_, columns_}, torch::full({}, none, matrix_.options()));
}

torch::Tensor MarginBlock::maxima() const {
  auto result = torch::full({2, matrix_.size(0)}, none, matrix_.options().dtype(torch::kFloat64));
  if (matrix_.size(1) > 0) result[0].copy_(matrix_.amax(1));
  result[1].index_put_({rows_}, margin_.scale * target_.value);
  return result;
}

torch::Tensor MarginBlock::sums(const torch::Tensor& maxima) {
  shift_ = shift_of(maxima, matrix_.scalar_type());
  matrix_.sub_(shift_.unsqueeze(1)).exp_();  // a target's -inf becomes 0
  const auto samples = matrix_.size(0);
  auto result = torch::zeros({samples + 1}, maxima.options());
  auto sums = result.narrow(0, 0, samples);
  sums.copy_(row_sums(matrix_));
  const auto targets = margin_.scale * target_.value - shift_.index_select(0, rows_);
  sums.index_add_(0, rows_, targets.exp());
  result[samples] = (plain_ >= maxima[0].index_select(0, rows_)).sum();
  return result;
}

MarginBlock::Gradients MarginBlock::gradients(const torch::Tensor& sums) {
  const auto samples = matrix_.size(0);
  const auto type = matrix_.scalar_type();
  const auto factor = margin_.scale / (samples * sums.narrow(0, 0, samples));
  matrix_.mul_(factor.to(type).unsqueeze(1));
  const auto targets = margin_.scale * target_.value - shift_.index_select(0, rows_);
  const auto probability = targets.exp() / sums.index_select(0, rows_);
  const auto per_cosine = target_.derivative * (probability - 1) * (margin_.scale / samples);
  matrix_.index_put_({rows_, columns_}, per_cosine.to(type));
  if (!margin_.normalized) return {torch::mm(matrix_, weights_), torch::mm(matrix_.t(), features_)};

  // By cosines so far; by x w' from here on. Along w itself nothing changes: that part is taken
  // off.
  matrix_.mul_(inverse_lengths_.unsqueeze(0));
  Gradients result{torch::mm(matrix_, weights_), torch::mm(matrix_.t(), features_)};
  const auto along = row_products(weights_, result.weights) * inverse_lengths_.square();
  result.weights.addcmul_(weights_, along.unsqueeze(1), -1);
  return result;
}

double mean_loss(const torch::Tensor& maxima, const torch::Tensor& sums, torch::ScalarType type) {
  const auto samples = maxima.size(1);
  const auto shift = shift_of(maxima, type).to(torch::kFloat64);
  return (sums.narrow(0, 0, samples).log() + shift - maxima[1]).mean().item<double>();
}

std::string batch_fault(const torch::Tensor& features,
                        const torch::Tensor& labels,
                        const torch::Tensor& weights,
                        std::int64_t classes) {
  const bool shapes = features.dim() == 2 && weights.dim() == 2 && labels.dim() == 1 &&
                      features.size(1) == weights.size(1) && features.size(0) == labels.size(0);
  if (!shapes)
    return formatted(
        "needs features [N, D], labels [N] and weights [classes, D], received {}, {}, {}",
        features.sizes(),
        labels.sizes(),
        weights.sizes());
  const auto type = features.scalar_type();
  if ((type != torch::kFloat32 && type != torch::kFloat64) || weights.scalar_type() != type ||
      labels.scalar_type() != torch::kInt64)
    return formatted(
        "needs float32 or float64 features and weights and int64 labels, received {}, {}, {}",
        type,
        weights.scalar_type(),
        labels.scalar_type());
  const auto wrong = labels.masked_select((labels < 0) | (labels >= classes));
  if (wrong.numel() > 0)
    return formatted(
        "needs labels in [0, {}), received {}", classes, wrong[0].item<std::int64_t>());
  return {};
}

}  // namespace dimred::models
