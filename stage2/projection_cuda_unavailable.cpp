#include <stdexcept>

#include "stage2/projection_cuda.h"

namespace dimred::stage2::cuda {
namespace {

[[noreturn]] void unavailable() {
  throw std::runtime_error("[stage2::cuda] this build has no CUDA kernels: nvcc was not there");
}

}  // namespace

std::vector<double> project(const float* /*basis*/,
                            std::int64_t /*k*/,
                            std::int64_t /*columns*/,
                            const float* /*vector*/,
                            void* /*stream*/) {
  unavailable();
}

void back_project(const float* /*basis*/,
                  std::int64_t /*k*/,
                  std::int64_t /*columns*/,
                  const float* /*first*/,
                  const float* /*second*/,
                  float* /*out1*/,
                  float* /*out2*/,
                  void* /*stream*/) {
  unavailable();
}

}  // namespace dimred::stage2::cuda
