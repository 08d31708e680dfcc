#include "pca/kernels_sets.h"
#include "support/errors.h"

namespace dimred::pca {

const Kernels& select_kernels(KernelSet set) {
  require(set == KernelSet::automatic || set == KernelSet::baseline,
          "pca::fit",
          "has only its baseline kernels on this kind of processor");
  return baseline_kernels();
}

}  // namespace dimred::pca
