// Compiled once for each instruction set, with the sizes that CMakeLists.txt says.
#include "pca/kernels.h"

namespace dimred::pca {
namespace {

constexpr const char* kName = DIMRED_KERNELS_NAME;
constexpr int kLanes = DIMRED_LANES;
constexpr int kTile = DIMRED_TILE;
constexpr int kStripRows = DIMRED_STRIP_ROWS;
constexpr int kStripVectors = 3;

#include "pca/kernels_body.inc"

}  // namespace

const Kernels& DIMRED_KERNELS() { return kKernels; }

}  // namespace dimred::pca
