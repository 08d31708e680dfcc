#include "training/determinism.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace dimred::training {

void make_deterministic() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setDeterministicMkldnn(true);
}

void choose_cuda_algorithms(bool tf32, bool autotune) {
  auto& context = at::globalContext();
  context.setAllowTF32CuBLAS(tf32);
  context.setAllowTF32CuDNN(tf32);
  context.setDeterministicCuDNN(!autotune);
  context.setBenchmarkCuDNN(autotune);
}

}  // namespace dimred::training
