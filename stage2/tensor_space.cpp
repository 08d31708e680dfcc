#include "stage2/tensor_space.h"

#include "stage2/fused.h"

namespace dimred::stage2 {
namespace {

std::span<const double> span_of(const Eigen::VectorXd& v) {
  return {v.data(), static_cast<std::size_t>(v.size())};
}

}  // namespace

TensorSpace::TensorSpace(Subspace subspace,
                         distributed::TensorCommunicator& communicator,
                         const distributed::Columns& columns,
                         torch::Tensor weights)
    : subspace_(std::move(subspace)),
      communicator_(communicator),
      columns_(columns),
      weights_(std::move(weights)),
      momentum_(torch::zeros({subspace_.own_columns}, weights_.options())),
      other_momentum_(torch::empty_like(momentum_)) {
  for (const auto& block : subspace_.blocks) block_sizes_.push_back(block.basis.size(0));
}

void TensorSpace::begin_gradient(method::Buffers buffers) {
  if (buffers == method::Buffers::restore) return;  // within a step
  start_.reset();
  direction_.reset();
  momentum_moved_ = false;
}

method::Projection TensorSpace::project() {
  auto numbers = stage2::project(subspace_, gradient_, {momentum_, gradient_});
  communicator_.sum(numbers);
  const auto k = subspace_.components();
  const auto* const others = numbers.data() + k;
  return {.g_k = Eigen::Map<const Eigen::VectorXd>(numbers.data(), k),
          .gradient_momentum = others[0],
          .gradient_square = others[1],
          .loss = gradient_loss()};
}

void TensorSpace::set_line(const method::Line& line) {
  const torch::NoGradGuard no_grad;
  t_ = 0;
  start_.reset();
  const bool alone = communicator_.size() == 1 && weights_.numel() == gradient_.numel();
  const bool fused = subspace_.algebra == DeviceAlgebra::fused && line.moves_momentum;
  if (fused && alone && line.keeps_start) {  // the same pass also moves w to the first trial
    start_ = torch::empty_like(weights_);
    keep_momentum();
    direction_ = fused::advance(subspace_.blocks, line, {gradient_, momentum_, weights_, start_});
    t_ = 1;
    return;
  }
  direction_ = all_gather(communicator_, own_direction(line), columns_);
  if (line.keeps_start) start_ = weights_.clone();
}

/// m and the other momentum change places, so that the m before the step is still there.
void TensorSpace::keep_momentum() {
  other_momentum_.copy_(momentum_);
  std::swap(momentum_, other_momentum_);
  momentum_moved_ = true;
}

/// u = P'd - alpha m of the own columns, m moved.
torch::Tensor TensorSpace::own_direction(const method::Line& line) {
  if (line.moves_momentum && subspace_.algebra == DeviceAlgebra::fused) {
    keep_momentum();
    return fused::advance(subspace_.blocks, line, {gradient_, momentum_, {}, {}});
  }
  const auto [forward, projected] =  // P'd, P'g_k
      back_project(subspace_, span_of(line.direction), span_of(line.projected), gradient_);
  if (!line.moves_momentum) return forward;
  torch::mul_out(other_momentum_, momentum_, torch::scalar_tensor(line.gamma));
  std::swap(momentum_, other_momentum_);
  momentum_moved_ = true;
  momentum_.add_(gradient_).sub_(projected);
  return line.alpha > 0 ? forward - line.alpha * momentum_ : forward;
}

void TensorSpace::move_to(double t) {
  const torch::NoGradGuard no_grad;
  if (t == t_) return;
  if (!start_.defined()) {
    weights_.add_(direction_, t - t_);
  } else if (t == 0) {
    weights_.copy_(start_);
  } else {
    torch::add_out(weights_, start_, direction_, t);
  }
  t_ = t;
}

void TensorSpace::subtract_momentum(double alpha) {
  const torch::NoGradGuard no_grad;
  weights_.sub_(all_gather(communicator_, momentum_, columns_), alpha);
}

void TensorSpace::restore() {
  const torch::NoGradGuard no_grad;
  t_ = 0;
  if (std::exchange(momentum_moved_, false)) std::swap(momentum_, other_momentum_);
  if (start_.defined()) weights_.copy_(start_);
}

}  // namespace dimred::stage2
