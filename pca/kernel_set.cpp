// Compiled once for each instruction set, with the sizes that CMakeLists.txt says.
#include "pca/kernels.h"

namespace dimred::pca {
namespace {

constexpr const char* set_name = DIMRED_KERNELS_NAME;
constexpr int vector_lanes = DIMRED_LANES;
constexpr int tile_rows = DIMRED_TILE;
constexpr int strip_rows = DIMRED_STRIP_ROWS;
constexpr int strip_vectors = 3;

#include "pca/kernels_body.inc"

}  // namespace

const Kernels& DIMRED_KERNELS() { return kernels_of_set; }

}  // namespace dimred::pca
