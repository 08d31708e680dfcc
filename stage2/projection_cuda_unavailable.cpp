#include <stdexcept>

#include "stage2/projection_cuda.h"

namespace dimred::stage2::cuda {
namespace {

[[noreturn]] void unavailable() {
  throw std::runtime_error("[stage2::cuda] this build has no CUDA kernels: nvcc was not there");
}

}  // namespace

template <class Value>
std::vector<double> project(const Value* /*basis*/,
                            std::int64_t /*k*/,
                            std::int64_t /*columns*/,
                            const float* /*vector*/,
                            void* /*stream*/) {
  unavailable();
}

template <class Value>
void back_project(const Value* /*basis*/,
                  std::int64_t /*k*/,
                  std::int64_t /*columns*/,
                  const float* /*first*/,
                  const float* /*second*/,
                  float* /*out1*/,
                  float* /*out2*/,
                  void* /*stream*/) {
  unavailable();
}

template std::vector<double> project(const float*, std::int64_t, std::int64_t, const float*, void*);
template std::vector<double> project(
    const std::uint16_t*, std::int64_t, std::int64_t, const float*, void*);
template void back_project(
    const float*, std::int64_t, std::int64_t, const float*, const float*, float*, float*, void*);
template void back_project(const std::uint16_t*,
                           std::int64_t,
                           std::int64_t,
                           const float*,
                           const float*,
                           float*,
                           float*,
                           void*);

}  // namespace dimred::stage2::cuda
