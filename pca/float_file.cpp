#include "pca/float_file.h"

#include <algorithm>

#include "checkpoints/float_formats.h"

namespace dimred::pca {
namespace {

template <class T>
void read_converted(const InputFile& file,
                    std::int64_t offset,
                    std::span<float> out,
                    float (*convert)(T)) {
  std::vector<T> values(out.size());
  file.read(offset, std::as_writable_bytes(std::span(values)));
  std::ranges::transform(values, out.begin(), convert);
}

/// `out` from element `first` of the run on.
void read_run(const InputFile& file,
              const FloatRun& run,
              std::int64_t first,
              std::span<float> out) {
  switch (run.type) {
    case FloatType::f32:
      return file.read(run.offset + 4 * first, std::as_writable_bytes(out));
    case FloatType::f64:
      return read_converted<double>(file, run.offset + 8 * first, out, checkpoints::from_double);
    case FloatType::f16:
      return read_converted<std::uint16_t>(
          file, run.offset + 2 * first, out, checkpoints::from_half);
    case FloatType::bf16:
      return read_converted<std::uint16_t>(
          file, run.offset + 2 * first, out, checkpoints::from_bfloat);
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

void read_runs(const InputFile& file,
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
