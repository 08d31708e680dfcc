#include "pca/kernels_sets.h"

namespace dimred::pca {
namespace {

constexpr const char* kName = "baseline";
constexpr int kLanes = 2;
constexpr int kTile = 3;
constexpr int kStripRows = 4;
constexpr int kStripVectors = 3;

#include "pca/kernels_body.inc"

}  // namespace

const Kernels& baseline_kernels() { return kKernels; }

}  // namespace dimred::pca
