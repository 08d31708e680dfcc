#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "support/atomic_file.h"

namespace dimred::pca {

enum class FloatType { f32, f64, f16, bf16 };

/// The type for a safetensors dtype; nullopt when it is none of these.
std::optional<FloatType> float_type(std::string_view dtype);

/// Columns [begin, begin + size) of a row lie contiguous at byte `offset` of its file.
struct FloatRun {
  FloatType type = FloatType::f32;
  std::int64_t begin = 0;
  std::int64_t size = 0;
  std::int64_t offset = 0;
};

/// Columns [begin, begin + out.size()) of a row that `runs` (sorted, gapless) make up, as float32
/// (checkpoints/float_formats.h: what is not finite as float32 is for fit to refuse).
void read_runs(const InputFile& file,
               const std::vector<FloatRun>& runs,
               std::int64_t begin,
               std::span<float> out);

}  // namespace dimred::pca
