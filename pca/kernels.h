#pragma once

#include <cstdint>

// The four loops over all columns that cost the time of a PCA, in float64. One source
// (kernel_set.cpp) is compiled once an instruction set. Own loops, because a tile of snapshots is
// a few dozen rows high, and OpenBLAS packs and splits it as if it were large: at n = 60 on an
// AVX-512 core, dsyrk 20 and dgemm 28 GFLOP/s against 55 and 55 here. All float64 and float32
// buffers must start on a cache line (pca/lines.h): a load across two costs twice (gram: 40).
namespace dimred::pca {

/// Columns of a partial Gram matrix; partials are added in block order.
inline constexpr std::int64_t columns_per_block = 4096;
/// Columns that are widened to float64 at a time (so that n = 400 rows still fit the L2 cache).
inline constexpr std::int64_t panel_columns = 512;
/// Row pitch of a float64 panel, and what float32 tiles need behind their width: kernels may touch
/// up to column_slack columns more (finite ones). No power of two, which would make rows share
/// cache sets; whole cache lines, because a load across two costs twice.
inline constexpr std::int64_t panel_stride = panel_columns + 8;
inline constexpr std::int64_t column_slack = 32;
/// Components are padded to a multiple of this.
inline constexpr std::int64_t component_unit = 8;

/// Values [rows x width], the rows `stride` apart.
template <class Value>
struct Tile {
  Value* values = nullptr;
  std::int64_t stride = 0, rows = 0, width = 0;
};

/// The loops over a tile of snapshots whose values are float or double.
template <class Value>
struct TileKernels {
  /// mean [width] of each column of w [rows x width]. False if a value of w is not finite as
  /// float32.
  bool (*mean)(const Tile<const Value>& w, double* mean);

  /// x[i] = w[i] - mean; x is zero up to a multiple of 8 columns. w [rows x width], mean [width],
  /// x [rows x panel_stride], width <= panel_columns.
  void (*centre)(const Tile<const Value>& w, const double* mean, double* x);

  /// x[i] = w[i] in float64; otherwise as centre.
  void (*widen)(const Tile<const Value>& w, double* x);

  /// p = c' (w - mean). c [rows x components], components a multiple of component_unit; mean
  /// [width] or null for 0; p [components x width] rounded to float32; scratch [rows x
  /// column_slack].
  void (*combine)(const Tile<const double>& c,
                  const Tile<const Value>& w,
                  const double* mean,
                  const Tile<float>& p,
                  double* scratch);
};

struct Kernels {
  const char* name;
  std::int64_t row_unit;  // rows of a Gram matrix are padded to a multiple of this
  TileKernels<float> float32;
  TileKernels<double> float64;

  /// Lower triangle of g += x x'. x [rows x panel_stride], g [rows x rows], rows a multiple of
  /// row_unit; entries above the diagonal receive unspecified values.
  void (*gram)(const double* x, std::int64_t rows, std::int64_t width, double* g);

  /// Smallest and largest of p [width] and 0, folded into *low and *high.
  void (*extremes)(const float* p, std::int64_t width, float* low, float* high);

  /// The kernels for tiles of this type.
  template <class Value>
  const TileKernels<Value>& of() const {
    if constexpr (sizeof(Value) == sizeof(float)) {
      return float32;
    } else {
      return float64;
    }
  }
};

/// Values beyond it are refused in a tile of doubles, too: P and what is made of it are float32.
inline constexpr double largest_float32 = 3.4028234663852886e38;

enum class KernelSet { automatic, avx512, avx2, baseline };

// One of each set, compiled for its instructions; x86-64 builds have all three.
const Kernels& avx512_kernels();    // AVX-512F: registers of 8 doubles, 32 of them
const Kernels& avx2_kernels();      // AVX2 and FMA: 4 doubles, 16 registers
const Kernels& baseline_kernels();  // what every processor of the target has

/// automatic: the widest that this processor runs. Throws std::invalid_argument for a set it does
/// not run, or one not built.
const Kernels& select_kernels(KernelSet set);

}  // namespace dimred::pca
