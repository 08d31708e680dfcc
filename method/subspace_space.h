#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <span>

namespace dimred::method {

/// The results of one reading of P, at the weights and on the batch of gradient().
struct Projection {
  Eigen::VectorXd g_k;           // P g [k]
  double gradient_momentum = 0;  // g'm, with the residual momentum m before the step
  double gradient_square = 0;    // g'g
  double loss = 0;               // of the whole batch

  /// |g - P'g_k|^2, as P has orthonormal rows.
  double residual_square() const { return std::max(0.0, gradient_square - g_k.squaredNorm()); }
  bool is_finite() const {
    return std::isfinite(gradient_square) && std::isfinite(loss) && g_k.allFinite();
  }
};

/// The line  w + t u  with  u = P'd - alpha m,  after  m <- gamma m + (g - P'g_k).
struct Line {
  Eigen::VectorXd direction;  // d [k]
  Eigen::VectorXd projected;  // g_k [k]
  double gamma = 0;
  double alpha = 0;             // 0: u does without m
  bool moves_momentum = false;  // false: m stays as it is, and alpha is 0
  bool keeps_start = true;      // false: move_to() comes once and never goes back
};

/// Running statistics of the network after a pass.
enum class Buffers { move, restore };

/// The space in which a method descends: the weights w [M], the rows of P [k x M], the gradient g
/// and the residual momentum m [M], wherever they lie. A host implements it, with tensors over
/// ranks or with a user's arrays. Every call is collective over the host's ranks and returns the
/// same numbers on all of them; k-sized vectors are whole on each. A step is: gradient, project,
/// set_line, then any number of move_to and loss.
class SubspaceSpace {
 public:
  SubspaceSpace() = default;
  SubspaceSpace(const SubspaceSpace&) = delete;
  SubspaceSpace& operator=(const SubspaceSpace&) = delete;
  virtual ~SubspaceSpace() = default;

  /// Rows of each diagonal block of P, k in all; none: k = 0, there is no subspace.
  virtual std::span<const Eigen::Index> block_sizes() const = 0;

  /// Loss and gradient at w. One pass forward and backward, one reduce-scatter of M.
  virtual void gradient(Buffers buffers) = 0;

  /// Reads P and g once; one all-reduce of k + 2 numbers, summed in float64 where the host can.
  virtual Projection project() = 0;

  /// Moves m and makes u. Reads P, g and m once; one all-gather of M. w may already stand at t = 1.
  virtual void set_line(const Line& line) = 0;

  /// w <- start + t u; t = 0 puts back the bits of the start. Nothing where w stands there already.
  virtual void move_to(double t) = 0;

  /// The loss at w of the function that gradient() took: the same samples, random state, precision
  /// and penalties. One pass forward; running statistics are as before.
  virtual double loss() = 0;

  /// w <- w - alpha m. One all-gather of M.
  virtual void subtract_momentum(double alpha) = 0;

  /// w, m and the running statistics as before this step's gradient(). After a call that threw; an
  /// exception of its own is said on standard error, and the first one goes on.
  virtual void restore() = 0;
};

}  // namespace dimred::method
