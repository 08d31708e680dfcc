#include <stdexcept>

#include "stage2/projection_cuda.h"

namespace dimred::stage2::cuda {
namespace {

[[noreturn]] void unavailable() {
  throw std::runtime_error("[stage2::cuda] this build has no CUDA kernels: nvcc was not there");
}

}  // namespace

std::int64_t partial_sums(std::int64_t /*rows*/, std::int64_t /*columns*/) { unavailable(); }

void project(const Basis& /*basis*/,
             const std::vector<const float*>& /*others*/,
             const float* /*vector*/,
             double* /*partial*/,
             double* /*sums*/,
             void* /*stream*/) {
  unavailable();
}

void back_project(const Basis& /*basis*/,
                  const Coefficients& /*by*/,
                  float* /*out1*/,
                  float* /*out2*/,
                  void* /*stream*/) {
  unavailable();
}

void advance(const Basis& /*basis*/,
             const Coefficients& /*by*/,
             const Advance& /*to*/,
             void* /*stream*/) {
  unavailable();
}

}  // namespace dimred::stage2::cuda
