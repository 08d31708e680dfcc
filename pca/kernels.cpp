#include "pca/kernels.h"

#include "support/errors.h"

namespace dimred::pca {

const Kernels& select_kernels(KernelSet set) {
#if defined(__x86_64__)
  const bool has_avx512 = __builtin_cpu_supports("avx512f") != 0;
  const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  require(set != KernelSet::avx512 || has_avx512,
          "[pca] needs a processor with AVX-512 for these kernels");
  require(set != KernelSet::avx2 || has_avx2,
          "[pca] needs a processor with AVX2 and FMA for these kernels");
  if (set == KernelSet::avx512 || (set == KernelSet::automatic && has_avx512)) {
    return avx512_kernels();
  }
  if (set == KernelSet::avx2 || (set == KernelSet::automatic && has_avx2)) return avx2_kernels();
  return baseline_kernels();
#else
  require(set == KernelSet::automatic || set == KernelSet::baseline,
          "[pca] dimred has only baseline kernels for this kind of processor");
  return baseline_kernels();
#endif
}

}  // namespace dimred::pca
