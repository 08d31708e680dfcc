#include "pca/kernels_sets.h"

namespace dimred::pca {
namespace {

constexpr const char* kName = "avx512";
constexpr int kLanes = 8;
constexpr int kTile = 5;
constexpr int kStripRows = 8;
constexpr int kStripVectors = 3;

#include "pca/kernels_body.inc"

}  // namespace

const Kernels& avx512_kernels() { return kKernels; }

}  // namespace dimred::pca
