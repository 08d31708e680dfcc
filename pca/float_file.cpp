#include "pca/float_file.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dimred::pca {
namespace {

float from_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const auto fraction = static_cast<float>(bits & 1023);
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return sign * (fraction == 0 ? INFINITY : NAN);
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

float from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float from_double(double value) { return static_cast<float>(value); }

template <class T>
void read_converted(const checkpoints::InputFile& file,
                    std::int64_t offset,
                    std::span<float> out,
                    float (*convert)(T)) {
  std::vector<T> values(out.size());
  file.read(offset, std::as_writable_bytes(std::span(values)));
  std::ranges::transform(values, out.begin(), convert);
}

/// `out` from element `first` of the run on.
void read_run(const checkpoints::InputFile& file,
              const FloatRun& run,
              std::int64_t first,
              std::span<float> out) {
  switch (run.type) {
    case FloatType::f32:
      return file.read(run.offset + 4 * first, std::as_writable_bytes(out));
    case FloatType::f64:
      return read_converted<double>(file, run.offset + 8 * first, out, from_double);
    case FloatType::f16:
      return read_converted<std::uint16_t>(file, run.offset + 2 * first, out, from_half);
    case FloatType::bf16:
      return read_converted<std::uint16_t>(file, run.offset + 2 * first, out, from_bfloat);
  }
}

}  // namespace

std::optional<FloatType> float_type(std::string_view dtype) {
  if (dtype == "F32") return FloatType::f32;
  if (dtype == "F64") return FloatType::f64;
  if (dtype == "F16") return FloatType::f16;
  if (dtype == "BF16") return FloatType::bf16;
  return std::nullopt;
}

void read_runs(const checkpoints::InputFile& file,
               const std::vector<FloatRun>& runs,
               std::int64_t begin,
               std::span<float> out) {
  // The last run that starts at or before `begin`; empty runs share their start with the next.
  auto run = std::ranges::upper_bound(runs, begin, {}, &FloatRun::begin) - 1;
  for (; !out.empty(); ++run) {
    const std::int64_t first = begin - run->begin;
    const auto count = std::min(static_cast<std::size_t>(run->size - first), out.size());
    read_run(file, *run, first, out.first(count));
    out = out.subspan(count);
    begin += static_cast<std::int64_t>(count);
  }
}

}  // namespace dimred::pca
