#pragma once

#include "pca/kernels.h"

// One file each, compiled for its instruction set; x86-64 builds have all three.
namespace dimred::pca {

const Kernels& avx512_kernels();    // AVX-512F: registers of 8 doubles, 32 of them
const Kernels& avx2_kernels();      // AVX2 and FMA: 4 doubles, 16 registers
const Kernels& baseline_kernels();  // what every processor of the target has

}  // namespace dimred::pca
