#include "pca/kernels_sets.h"

namespace dimred::pca {
namespace {

constexpr const char* kName = "avx2";
constexpr int kLanes = 4;
constexpr int kTile = 3;
constexpr int kStripRows = 4;
constexpr int kStripVectors = 3;

#include "pca/kernels_body.inc"

}  // namespace

const Kernels& avx2_kernels() { return kKernels; }

}  // namespace dimred::pca
