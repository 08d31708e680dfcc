// device_algebra DEVICE COLUMNS COMPONENTS REPEATS: both reads of P [COMPONENTS x COLUMNS] in a
// step of stage 2 by each algebra that the device has, and the algebra of a step without momentum
// (project, BFGS, back-project), P in float32 and in bfloat16, in turn with a copy of P within the
// device. Prints one JSON line: seconds of each turn, and the bytes that each must at least move.
#include <torch/cuda.h>

#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "method/inverse_hessian.h"
#include "stage2/projection.h"
#include "stage2/projection_device.h"
#include "stage2/tensor_space.h"
#include "support/stopwatch.h"

namespace {

using namespace dimred;
using Json = nlohmann::json;

double synchronized_seconds(const torch::Device& device, const std::function<void()>& work) {
  const auto wait = [&] {
    if (device.is_cuda()) torch::cuda::synchronize(device.index());
  };
  wait();
  const Stopwatch watch;
  work();
  wait();
  return watch.seconds();
}

/// A space with one gradient and no loss.
class AlgebraSpace final : public stage2::TensorSpace {
 public:
  AlgebraSpace(stage2::Subspace subspace,
               distributed::TensorCommunicator& communicator,
               const distributed::Columns& columns,
               const torch::Tensor& weights,
               const torch::Tensor& gradient)
      : TensorSpace(std::move(subspace), communicator, columns, weights) {
    set_gradient(gradient);
  }

  void gradient(method::Buffers /*buffers*/) override {}
  double loss() override { return 0; }

 private:
  double gradient_loss() override { return 0; }
};

/// The algebra of a step without momentum.
void update(const torch::Tensor& basis, const torch::Tensor& gradient, method::InverseHessian& h) {
  const auto numbers = stage2::project(basis, gradient);
  const Eigen::Map<const Eigen::VectorXd> g_k(numbers.data(), basis.size(0));
  h.update(0.5 * g_k, g_k, method::bfgs, {});
  const Eigen::VectorXd d = h.direction(g_k).d;
  stage2::back_project(basis, {d.data(), numbers.size()}, std::span<const double>(numbers));
}

/// Both reads of P in a step, on one rank.
Json turns(const torch::Device& device,
           const torch::Tensor& dense,
           stage2::DeviceAlgebra algebra,
           int repeats) {
  stage2::Subspace subspace(device.is_cuda() ? stage2::device::aligned_rows(dense, device) : dense);
  subspace.algebra = algebra;
  const auto vectors = torch::randn({2, dense.size(1)}, dense.options().dtype(torch::kFloat32));
  const auto g = vectors[0];
  const Eigen::VectorXd d = Eigen::VectorXd::Constant(dense.size(0), 1e-3);
  const auto communicator = distributed::single_rank();
  const distributed::Columns alone;
  AlgebraSpace space(subspace, *communicator, alone, vectors[1], g);
  method::InverseHessian h(space.block_sizes());
  auto copy = torch::empty_like(dense);
  const auto vector = g.nbytes(), bytes = dense.nbytes();
  Json result = {{"dtype", dense.scalar_type() == torch::kFloat32 ? "float32" : "bfloat16"},
                 {"algebra", algebra == stage2::DeviceAlgebra::fused ? "fused" : "aten"},
                 {"project_bytes", bytes + 2 * vector},  // P, g, m
                 {"line_bytes", bytes + 7 * vector},     // P, g, m, w; m, u, w and its copy
                 {"copy_bytes", 2 * bytes}};
  for (int i = 0; i <= repeats; ++i) {  // the first turn warms up
    const auto add = [&](const char* name, const std::function<void()>& work) {
      const double seconds = synchronized_seconds(device, work);
      if (i > 0) result[name].push_back(seconds);
    };
    add("project", [&] { space.project(); });
    add("line", [&] {
      space.set_line(
          {.direction = d, .projected = d, .gamma = 0.9, .alpha = 0.005, .moves_momentum = true});
      space.move_to(1);
    });
    if (device.is_cpu()) add("update", [&] { update(dense, g, h); });
    // The same bytes through memory: P read once and written once is as much as P read twice.
    add("copy", [&] { copy.copy_(dense); });
  }
  return result;
}

}  // namespace

int main(int count, char** values) {
  if (count != 5) {
    std::cerr << "usage: device_algebra DEVICE COLUMNS COMPONENTS REPEATS\n";
    return 2;
  }
  const torch::NoGradGuard no_grad;
  const torch::Device device(values[1]);
  const auto dense = torch::randn({std::stoll(values[3]), std::stoll(values[2])}, device);
  std::vector algebras{stage2::DeviceAlgebra::aten};
  if (device.is_cuda()) algebras.push_back(stage2::DeviceAlgebra::fused);
  Json result;
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16})
    for (const auto algebra : algebras)
      result.push_back(turns(device, dense.to(dtype), algebra, std::stoi(values[4])));
  std::cout << result.dump() << '\n';
  return 0;
}
