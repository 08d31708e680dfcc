#include "stage2/bfgs.h"

#include <algorithm>
#include <cmath>

#include "support/errors.h"

namespace dimred::stage2 {

void validate(const BfgsOptions& options) {
  constexpr auto place = "stage2::bfgs";
  require(options.curvature_floor >= 0,
          place,
          "curvature_floor needs >= 0, received ",
          options.curvature_floor);
  require(options.relative_curvature_floor >= 0 && options.relative_curvature_floor < 1,
          place,
          "relative_curvature_floor needs [0, 1), received ",
          options.relative_curvature_floor);
}

const char* name(UpdateOutcome outcome) {
  switch (outcome) {
    case UpdateOutcome::none:
      return "none";
    case UpdateOutcome::updated:
      return "updated";
    case UpdateOutcome::skipped:
      return "skipped";
    case UpdateOutcome::damped:
      return "damped";
  }
  return "unknown";
}

UpdateOutcome update(Eigen::MatrixXd& inverse_hessian,
                     const Eigen::VectorXd& s,
                     const Eigen::VectorXd& y,
                     const BfgsOptions& options) {
  const double curvature = s.dot(y);
  const double floor =
      std::max(options.curvature_floor, options.relative_curvature_floor * s.norm() * y.norm());
  if (!(curvature > floor) || !std::isfinite(curvature)) return UpdateOutcome::skipped;
  // With h = H y and r = 1 / s'y the product form expands to
  //   H - r (h s' + s h') + r (1 + r y'h) s s'.
  const double r = 1 / curvature;
  const Eigen::VectorXd h = inverse_hessian * y;
  const double scale = r * (1 + r * y.dot(h));
  const Eigen::MatrixXd updated =
      inverse_hessian - r * (h * s.transpose() + s * h.transpose()) + scale * s * s.transpose();
  if (!updated.allFinite()) return UpdateOutcome::skipped;
  inverse_hessian = (updated + updated.transpose()) / 2;
  return UpdateOutcome::updated;
}

Eigen::VectorXd powell_damped(const Eigen::VectorXd& s,
                              const Eigen::VectorXd& y,
                              const Eigen::VectorXd& b_s) {
  constexpr double least = 0.2;
  const double curvature = s.dot(y);
  const double model = s.dot(b_s);
  if (!(model > 0) || curvature >= least * model) return y;
  const double theta = (1 - least) * model / (model - curvature);
  return theta * y + (1 - theta) * b_s;
}

Direction direction(Eigen::MatrixXd& inverse_hessian, const Eigen::VectorXd& gradient) {
  Direction result;
  result.d = -(inverse_hessian * gradient);
  result.slope = gradient.dot(result.d);
  if (result.slope < 0 && result.d.allFinite()) return result;
  inverse_hessian.setIdentity();
  return {.d = -gradient, .slope = -gradient.squaredNorm(), .reset = true};
}

}  // namespace dimred::stage2
