#include <stdexcept>

#include "stage2/projection_cuda.h"

namespace dimred::stage2::cuda {
namespace {

[[noreturn]] void unavailable() {
  throw std::runtime_error("[stage2::cuda] this build has no CUDA kernels: nvcc was not there");
}

}  // namespace

std::int64_t partial_sums(std::int64_t /*rows*/, std::int64_t /*columns*/) { unavailable(); }

template <class Value>
void project(const Matrix<Value>& /*basis*/,
             const std::vector<const float*>& /*others*/,
             const float* /*vector*/,
             double* /*partial*/,
             double* /*sums*/,
             void* /*stream*/) {
  unavailable();
}

template <class Value>
void back_project(const Matrix<Value>& /*basis*/,
                  const float* /*first*/,
                  const float* /*second*/,
                  float* /*out1*/,
                  float* /*out2*/,
                  void* /*stream*/) {
  unavailable();
}

template <class Value>
void advance(const Matrix<Value>& /*basis*/,
             const float* /*first*/,
             const float* /*second*/,
             const Advance& /*to*/,
             void* /*stream*/) {
  unavailable();
}

template void project(
    const Matrix<float>&, const std::vector<const float*>&, const float*, double*, double*, void*);
template void project(const Matrix<std::uint16_t>&,
                      const std::vector<const float*>&,
                      const float*,
                      double*,
                      double*,
                      void*);
template void back_project(const Matrix<float>&, const float*, const float*, float*, float*, void*);
template void back_project(
    const Matrix<std::uint16_t>&, const float*, const float*, float*, float*, void*);
template void advance(const Matrix<float>&, const float*, const float*, const Advance&, void*);
template void advance(
    const Matrix<std::uint16_t>&, const float*, const float*, const Advance&, void*);

}  // namespace dimred::stage2::cuda
