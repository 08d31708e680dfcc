#include "checkpoints/verbs/check.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "checkpoints/safetensors.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::verbs {
namespace {

using checkpoints::Checkpoint;
using checkpoints::StoredBox;
using checkpoints::StoredTensor;

/// A float format with an infinity whose bits are `infinity` and NaNs above it, but for the sign.
template <class Word>
struct FloatFormat {
  std::string_view dtype;
  Word sign;
  Word infinity;
};

constexpr FloatFormat<std::uint64_t> format_f64{"F64", 1ULL << 63U, 0x7FFULL << 52U};
constexpr FloatFormat<std::uint32_t> format_f32{"F32", 1U << 31U, 0x7F800000U};
constexpr FloatFormat<std::uint16_t> format_f16{"F16", 0x8000, 0x7C00};
constexpr FloatFormat<std::uint16_t> format_bf16{"BF16", 0x8000, 0x7F80};

template <class Word>
std::span<const Word> words_of(ByteView stored) {
  return {reinterpret_cast<const Word*>(stored.data()), stored.size() / sizeof(Word)};
}

/// Runs of this length have counts that fit 16 bits: counts are as wide as the values are.
constexpr std::size_t run_length = std::size_t{1} << 15U;

template <class Word>
struct RunCounts {
  Word nan = 0, infinite = 0, negative = 0, zero = 0, same = 0;
};

/// Counts by comparisons alone, which the compiler turns into vectors.
template <class Word>
RunCounts<Word> count_run(std::span<const Word> run, const FloatFormat<Word>& format, Word first) {
  const auto mask = static_cast<Word>(~format.sign);
  const auto negative_infinity = static_cast<Word>(format.sign | format.infinity);
  RunCounts<Word> counts;
  for (const Word word : run) {
    const auto magnitude = static_cast<Word>(word & mask);
    const auto canonical = magnitude == 0 ? Word{0} : word;
    counts.nan += magnitude > format.infinity ? 1 : 0;
    counts.infinite += magnitude == format.infinity ? 1 : 0;
    counts.negative += word == negative_infinity ? 1 : 0;
    counts.zero += magnitude == 0 ? 1 : 0;
    counts.same += canonical == first ? 1 : 0;
  }
  return counts;
}

template <class Word>
ValueCounts count_floats(ByteView stored, const FloatFormat<Word>& format) {
  const auto words = words_of<Word>(stored);
  ValueCounts counts{.elements = std::ssize(words)};
  if (words.empty()) return counts;
  const auto magnitude = [&](Word word) { return static_cast<Word>(word & ~format.sign); };
  const auto first = magnitude(words[0]) == 0 ? Word{0} : words[0];
  counts.first_bits = first;
  std::int64_t same = 0;
  for (std::size_t at = 0; at < words.size(); at += run_length) {
    const auto run = words.subspan(at, std::min(run_length, words.size() - at));
    const auto found = count_run(run, format, first);
    counts.nan += found.nan;
    counts.infinite += found.infinite;
    counts.negative_infinite += found.negative;
    counts.zero += found.zero;
    same += found.same;
  }
  counts.constant = same == counts.elements;
  if (counts.bad() == 0) return counts;
  const auto bad =
      std::ranges::find_if(words, [&](Word word) { return magnitude(word) >= format.infinity; });
  counts.first_bad = bad - words.begin();
  return counts;
}

/// The meaning of a code of an 8-bit float.
enum class FloatCode : std::uint8_t { number, zero, nan, infinite, negative_infinite };

/// The codes of a type that are no numbers but zero; the others are numbers.
using FloatCodes = std::vector<std::pair<std::uint8_t, FloatCode>>;

FloatCodes codes_of(std::string_view dtype) {
  using enum FloatCode;
  FloatCodes codes;
  if (dtype != "F8_E8M0") codes.emplace_back(0x00, zero);
  if (dtype == "F8_E8M0") codes.emplace_back(0xFF, nan);
  if (dtype == "F8_E4M3FNUZ" || dtype == "F8_E5M2FNUZ") codes.emplace_back(0x80, nan);
  if (dtype == "F8_E4M3" || dtype == "F8_E5M2") codes.emplace_back(0x80, zero);
  const std::uint8_t first_nan = dtype == "F8_E4M3" ? 0x7F : 0x7D;
  if (dtype == "F8_E4M3" || dtype == "F8_E5M2")
    for (int code = first_nan; code <= 0x7F; ++code)
      for (const int sign : {0, 0x80}) codes.emplace_back(code | sign, nan);
  if (dtype == "F8_E5M2") {
    codes.emplace_back(0x7C, infinite);
    codes.emplace_back(0xFC, negative_infinite);
  }
  return codes;
}

ValueCounts count_codes(std::string_view dtype, ByteView stored) {
  std::array<FloatCode, 256> meaning{};
  for (const auto& [code, what] : codes_of(dtype)) meaning[code] = what;
  std::array<std::int64_t, 256> times{};
  const auto codes = words_of<std::uint8_t>(stored);
  for (const auto code : codes) ++times[code];
  ValueCounts counts{.elements = std::ssize(codes)};
  if (codes.empty()) return counts;
  const auto sum = [&](FloatCode what) {
    std::int64_t all = 0;
    for (std::size_t code = 0; code < times.size(); ++code)
      if (meaning[code] == what) all += times[code];
    return all;
  };
  counts.nan = sum(FloatCode::nan);
  counts.negative_infinite = sum(FloatCode::negative_infinite);
  counts.infinite = sum(FloatCode::infinite) + counts.negative_infinite;
  counts.zero = sum(FloatCode::zero);
  const bool zero = meaning[codes[0]] == FloatCode::zero;
  counts.first_bits = zero ? 0 : codes[0];
  counts.constant = (zero ? counts.zero : times[codes[0]]) == counts.elements;
  const auto bad = std::ranges::find_if(
      codes, [&](std::uint8_t code) { return meaning[code] >= FloatCode::nan; });
  if (bad != codes.end()) counts.first_bad = bad - codes.begin();
  return counts;
}

/// Integers and booleans.
template <class Word>
ValueCounts count_integers(ByteView stored) {
  const auto words = words_of<Word>(stored);
  ValueCounts counts{.elements = std::ssize(words)};
  if (words.empty()) return counts;
  counts.first_bits = words[0];
  counts.zero = std::ranges::count(words, Word{0});
  counts.constant = std::ranges::count(words, words[0]) == counts.elements;
  return counts;
}

/// Pairs of float32. An element with a NaN and an infinity counts as NaN.
ValueCounts count_complex(ByteView stored) {
  auto counts = count_integers<std::uint64_t>(stored);
  const auto parts = words_of<std::uint32_t>(stored);
  for (std::int64_t i = 0; i < counts.elements; ++i) {
    const auto larger =
        std::max(parts[2 * i] & ~format_f32.sign, parts[2 * i + 1] & ~format_f32.sign);
    if (larger < format_f32.infinity) continue;
    ++(larger > format_f32.infinity ? counts.nan : counts.infinite);
    if (!counts.first_bad) counts.first_bad = i;
  }
  return counts;
}

std::string counted_values(const StoredTensor& tensor) {
  const auto shape = joined(tensor.shape, " x ", [](auto size) { return std::to_string(size); });
  return formatted("{} values ({}{})",
                   count_text(tensor.elements()),
                   tensor.dtype,
                   shape.empty() ? "" : ", " + shape);
}

std::string fault_text(const StoredTensor& tensor, const ValueCounts& counts) {
  std::vector<std::string> parts;
  if (counts.nan > 0) parts.push_back(count_text(counts.nan) + " NaN");
  if (counts.infinite > 0) parts.push_back(count_text(counts.infinite) + " infinite");
  return formatted("\"{}\": {} of {}; the first is element {}",
                   printable(tensor.name),
                   joined(parts, ", "),
                   counted_values(tensor),
                   counts.first_bad.value_or(0));
}

/// Says of each tensor what its counts are, in the checkpoint's order.
CheckReport value_report_of(const std::vector<StoredTensor>& tensors,
                            const std::vector<ValueCounts>& counts) {
  CheckReport report;
  std::vector<std::string> masks, zeros, constants;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& name = tensors[i].name;
    const bool mask = counts[i].is_mask();
    if (counts[i].bad() > 0 && !mask) report.faults.push_back(fault_text(tensors[i], counts[i]));
    if (mask) masks.push_back(name);
    if (mask || counts[i].bad() > 0 || !counts[i].constant || counts[i].elements < 2) continue;
    (counts[i].zero > 0 ? zeros : constants).push_back(name);
  }
  const auto remark = [&](const std::vector<std::string>& names, std::string_view values) {
    if (names.empty()) return;
    const auto* verb = names.size() == 1 ? "holds" : "hold";
    report.remarks.push_back(
        formatted("{} {} {}", checkpoints::count_and_names(names), verb, values));
  };
  remark(masks, "only 0 and -inf (a mask)");
  remark(zeros, "only zeros");
  remark(constants, "the same value in all elements");
  return report;
}

/// Returns the range of a box's bytes in its file, gaps between its elements included.
struct FilePlace {
  std::size_t file = 0;
  std::int64_t begin = 0, end = 0;
  std::size_t tensor = 0;
};

std::vector<FilePlace> file_places_of(const std::vector<StoredTensor>& tensors) {
  std::vector<FilePlace> places;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].elements() == 0) continue;
    const auto bits = checkpoints::bits_of(tensors[i].dtype);
    for (const auto& box : tensors[i].boxes) {
      std::int64_t last = 0;
      for (const auto& dimension : box.dimensions) last += (dimension.count - 1) * dimension.stored;
      places.push_back({box.file, box.offset, box.offset + ((last + 1) * bits + 7) / 8, i});
    }
  }
  std::ranges::sort(places, {}, [](const FilePlace& place) {
    return std::tuple(place.file, place.begin, place.end, place.tensor);
  });
  return places;
}

/// Lists of two or more tensors of the same places.
std::vector<std::vector<std::string>> shared_places(const std::vector<StoredTensor>& tensors) {
  std::map<std::pair<std::string, std::vector<StoredBox>>, std::vector<std::string>> names;
  for (const auto& tensor : tensors)
    if (tensor.elements() > 0) names[{tensor.dtype, tensor.boxes}].push_back(tensor.name);
  std::vector<std::vector<std::string>> shared;
  for (auto& [place, of_it] : names)
    if (of_it.size() > 1) shared.push_back(std::move(of_it));
  return shared;
}

}  // namespace

void ValueCounts::add(const ValueCounts& next) {
  if (next.elements == 0) return;
  if (next.first_bad && !first_bad) first_bad = elements + *next.first_bad;
  constant = constant && next.constant && (elements == 0 || first_bits == next.first_bits);
  if (elements == 0) first_bits = next.first_bits;
  elements += next.elements;
  nan += next.nan;
  infinite += next.infinite;
  negative_infinite += next.negative_infinite;
  zero += next.zero;
}

ValueCounts count_values(std::string_view dtype, ByteView stored) {
  if (dtype == format_f32.dtype) return count_floats(stored, format_f32);
  if (dtype == format_bf16.dtype) return count_floats(stored, format_bf16);
  if (dtype == format_f16.dtype) return count_floats(stored, format_f16);
  if (dtype == format_f64.dtype) return count_floats(stored, format_f64);
  if (dtype.starts_with("F8")) return count_codes(dtype, stored);
  if (dtype == "C64") return count_complex(stored);
  switch (const auto bits = checkpoints::bits_of(dtype)) {
    case 8:
      return count_integers<std::uint8_t>(stored);
    case 16:
      return count_integers<std::uint16_t>(stored);
    case 32:
      return count_integers<std::uint32_t>(stored);
    case 64:
      return count_integers<std::uint64_t>(stored);
    default:
      check(bits > 0, "an element type of a file");
      return {.elements = std::ssize(stored) * 8 / bits, .constant = false};
  }
}

CheckReport check_values(const Checkpoint& checkpoint, const Reading& reading) {
  struct Task {
    std::size_t tensor;
    TensorBlock block;
    ValueCounts counts;
  };
  const auto& tensors = checkpoint.tensors;
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (const auto& block : blocks_of(tensors[i])) tasks.push_back({i, block, {}});
    expect_bytes(reading.progress, tensors[i].bytes());
  }
  const checkpoints::TensorReader reader(checkpoint);
  in_parallel(std::ssize(tasks), reading.thread_count(), [&](std::int64_t i) {
    auto& [tensor, block, counts] = tasks[i];
    const auto bytes = block_buffer(block.bytes);
    reader.read(tensors[tensor], block.first, bytes);
    counts = count_values(tensors[tensor].dtype, bytes);
    reading.count(block.bytes);
  });
  std::vector<ValueCounts> counts(tensors.size());
  for (const auto& task : tasks) counts[task.tensor].add(task.counts);
  return value_report_of(tensors, counts);
}

CheckReport check_places(const Checkpoint& checkpoint) {
  const auto& tensors = checkpoint.tensors;
  CheckReport report;
  for (const auto& names : shared_places(tensors))
    report.remarks.push_back(
        formatted("tensors at one place in the file: {}", checkpoints::count_and_names(names)));
  if (checkpoint.format != "torch.distributed.checkpoint") return report;
  const auto places = file_places_of(tensors);
  const FilePlace* furthest = nullptr;  // of the same file, by its end
  for (const auto& place : places) {
    const bool same_file = furthest != nullptr && furthest->file == place.file;
    if (same_file && place.begin < furthest->end && place.tensor != furthest->tensor &&
        tensors[place.tensor].boxes != tensors[furthest->tensor].boxes)
      report.faults.push_back(formatted("\"{}\" and \"{}\" overlap in {} at byte {}",
                                        printable(tensors[furthest->tensor].name),
                                        printable(tensors[place.tensor].name),
                                        checkpoint.files[place.file].filename(),
                                        place.begin));
    if (!same_file || place.end > furthest->end) furthest = &place;
  }
  return report;
}

}  // namespace dimred::verbs
