// stage2_algebra COLUMNS COMPONENTS REPEATS: project + BFGS update + back-project against a copy of
// the same bytes (P is read twice), and against the same with P in bfloat16, in turn; prints one
// JSON line with the seconds of each turn.
#include <chrono>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "method/inverse_hessian.h"
#include "stage2/projection.h"

namespace {

using namespace dimred;

template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::span<const double> view(const Eigen::VectorXd& v) {
  return {v.data(), static_cast<std::size_t>(v.size())};
}

/// The algebra of one step on a basis that is not in any cache.
void algebra(const torch::Tensor& basis, const torch::Tensor& gradient, method::InverseHessian& h) {
  const auto numbers = stage2::project(basis, gradient);
  const Eigen::Map<const Eigen::VectorXd> g_k(numbers.data(), basis.size(0));
  const Eigen::VectorXd s = 0.5 * g_k;
  h.update(s, g_k, method::bfgs, {});
  const auto d = h.direction(g_k).d;
  stage2::back_project(basis, view(d), std::span<const double>(numbers));
}

}  // namespace

int main(int count, char** values) {
  if (count != 4) {
    std::cerr << "usage: stage2_algebra COLUMNS COMPONENTS REPEATS\n";
    return 2;
  }
  const std::int64_t columns = std::stoll(values[1]);
  const std::int64_t components = std::stoll(values[2]);
  const auto basis = torch::randn({components, columns}) / std::sqrt(static_cast<double>(columns));
  const auto gradient = torch::randn({columns});
  const auto rounded = basis.to(torch::kBFloat16);
  auto copy = torch::empty_like(basis);
  const std::vector<Eigen::Index> blocks = {components};
  method::InverseHessian h(blocks);
  algebra(basis, gradient, h);  // warm-up: threads, pages
  algebra(rounded, gradient, h);
  copy.copy_(basis);
  nlohmann::json result = {
      {"columns", columns}, {"components", components}, {"bytes", basis.nbytes()}};
  for (int i = 0; i < std::stoi(values[3]); ++i) {
    result["algebra"].push_back(seconds_of([&] { algebra(basis, gradient, h); }));
    result["algebra_bfloat16"].push_back(seconds_of([&] { algebra(rounded, gradient, h); }));
    // The same bytes through memory: P read once and written once is as much as P read twice.
    result["copy"].push_back(seconds_of([&] { copy.copy_(basis); }));
  }
  std::cout << result.dump() << '\n';
  return 0;
}
