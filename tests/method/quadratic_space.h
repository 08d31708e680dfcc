#pragma once

#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "method/subspace_space.h"

namespace dimred::method {

/// f(w) = sum_j c_j (w_j - 1)^2 / 2 from w = 0, in plain float64 vectors: the simplest host.
class QuadraticSpace : public SubspaceSpace {
 public:
  QuadraticSpace(Eigen::VectorXd curvature,
                 Eigen::MatrixXd rows,
                 std::vector<Eigen::Index> blocks = {})
      : curvature(std::move(curvature)), p(std::move(rows)), blocks_(std::move(blocks)) {
    w = m = Eigen::VectorXd::Zero(this->curvature.size());
    if (blocks_.empty() && p.rows() > 0) blocks_ = {p.rows()};
  }

  std::span<const Eigen::Index> block_sizes() const override { return blocks_; }
  void gradient(Buffers buffers) override {
    if (buffers == Buffers::move) before_ = {w, m};
    g = curvature.cwiseProduct((w.array() - 1).matrix());
    if (disturb_gradient) disturb_gradient(g);
  }
  Projection project() override {
    return {
        .g_k = p * g, .gradient_momentum = g.dot(m), .gradient_square = g.dot(g), .loss = value()};
  }
  void set_line(const Line& line) override {
    if (line.moves_momentum) m = line.gamma * m + g - p.transpose() * line.projected;
    u = p.transpose() * line.direction - line.alpha * m;
    start_ = w;
  }
  void move_to(double t) override { w = t == 0 ? start_ : start_ + t * u; }
  double loss() override { return disturb_loss ? disturb_loss(value()) : value(); }
  void subtract_momentum(double alpha) override { w -= alpha * m; }
  void restore() override {
    std::tie(w, m) = before_;
    if (disturb_restore) disturb_restore();
  }

  double value() const { return curvature.dot((w.array() - 1).square().matrix()) / 2; }

  Eigen::VectorXd curvature;  // c
  Eigen::MatrixXd p;
  Eigen::VectorXd w, m, g, u;
  std::function<void(Eigen::VectorXd&)> disturb_gradient;
  std::function<double(double)> disturb_loss;  // of the trials
  std::function<void()> disturb_restore;

 private:
  std::vector<Eigen::Index> blocks_;
  Eigen::VectorXd start_;
  std::pair<Eigen::VectorXd, Eigen::VectorXd> before_;
};

inline Eigen::VectorXd six_curvatures() {
  Eigen::VectorXd c(6);
  c << 4, 1, 2, 3, 0.5, 5;
  return c;
}

/// The first k unit vectors of six as rows.
inline Eigen::MatrixXd first_axes(Eigen::Index k) { return Eigen::MatrixXd::Identity(k, 6); }

}  // namespace dimred::method
