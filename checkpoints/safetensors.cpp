#include "checkpoints/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "checkpoints/finite.h"
#include "checkpoints/float_formats.h"
#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

constexpr std::int64_t kLargestHeader = 100'000'000;  // the format's own limit

template <class Stored, class Value, class Convert>
std::vector<Value> read_as(const InputFile& file, const TensorInfo& tensor, Convert convert) {
  const std::int64_t room = file.size() - tensor.offset;
  require_environment(tensor.offset >= 0 && tensor.elements >= 0 && room >= 0 &&
                          tensor.elements <= room / std::int64_t{sizeof(Stored)},
                      "[safetensors] '{}': \"{}\" reaches beyond the end of the file",
                      file.path().string(),
                      tensor.name);
  std::vector<Stored> stored(static_cast<std::size_t>(tensor.elements));
  file.read(tensor.offset, std::as_writable_bytes(std::span(stored)));
  if constexpr (std::is_same_v<Stored, Value>) {
    return stored;
  } else {
    std::vector<Value> values(stored.size());
    std::ranges::transform(stored, values.begin(), convert);
    return values;
  }
}

[[noreturn]] void refuse(const InputFile& file, const TensorInfo& tensor, std::string_view rule) {
  throw std::runtime_error(formatted("[safetensors] '{}': \"{}\" needs {}, received {}",
                                     file.path().string(),
                                     tensor.name,
                                     rule,
                                     tensor.dtype));
}

std::vector<float> read_floats(const InputFile& file, const TensorInfo& tensor) {
  const auto same = [](float value) { return value; };
  if (tensor.dtype == "F32") return read_as<float, float>(file, tensor, same);
  if (tensor.dtype == "F64") return read_as<double, float>(file, tensor, from_double);
  if (tensor.dtype == "F16") return read_as<std::uint16_t, float>(file, tensor, from_half);
  if (tensor.dtype == "BF16") return read_as<std::uint16_t, float>(file, tensor, from_bfloat);
  refuse(file, tensor, "one of F32, F64, F16, BF16");
}

/// Adds one tensor's entry behind `offset`, which moves to its end.
template <class Tensor>
void add_entry(nlohmann::ordered_json& header,
               const Tensor& tensor,
               const char* dtype,
               std::int64_t& offset) {
  constexpr std::int64_t value_bytes = sizeof(tensor.values[0]);
  const std::int64_t end = offset + std::ssize(tensor.values) * value_bytes;
  header[tensor.name] = {
      {"dtype", dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
  offset = end;
}

/// Header text padded with spaces, so that the data starts at a multiple of 8 bytes.
std::string header_of(const std::vector<FloatTensor>& tensors,
                      const std::vector<IntegerTensor>& integers) {
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::int64_t offset = 0;
  for (const IntegerTensor& tensor : integers) add_entry(header, tensor, "I64", offset);
  for (const FloatTensor& tensor : tensors) add_entry(header, tensor, "F32", offset);
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

template <class Tensor>
void check_tensor(const Tensor& tensor, std::set<std::string>& names) {
  require(names.insert(tensor.name).second,
          "[safetensors] needs different names, received '{}' twice",
          tensor.name);
  std::int64_t elements = 1;
  bool fits = true;
  for (std::int64_t extent : tensor.shape) {
    fits = fits && extent >= 0 && !__builtin_mul_overflow(elements, extent, &elements);
  }
  require(fits && elements == std::ssize(tensor.values),
          "[safetensors] '{}' needs as many values as its shape has, received {}",
          tensor.name,
          tensor.values.size());
}

}  // namespace

std::vector<TensorInfo> read_safetensors_header(const std::filesystem::path& path) {
  const InputFile file(path);
  std::uint64_t length = 0;
  require_environment(file.size() >= 8,
                      "[safetensors] '{}': needs 8 bytes of header length, received {}",
                      path.string(),
                      file.size());
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  require_environment(
      std::cmp_less_equal(length, kLargestHeader) && std::cmp_less_equal(length, file.size() - 8),
      "[safetensors] '{}': needs a header of at most {} bytes, received {}",
      path.string(),
      std::min(kLargestHeader, file.size() - 8),
      length);
  std::string text(length, '\0');
  file.read(8, std::as_writable_bytes(std::span(text)));
  const auto data = static_cast<std::int64_t>(8 + length);
  try {
    std::vector<TensorInfo> tensors = parse_safetensors_header(text, file.size() - data);
    for (TensorInfo& tensor : tensors) tensor.offset += data;
    return tensors;
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(formatted("[safetensors] '{}': {}", path.string(), error.what()));
  }
}

std::vector<float> read_float_tensor(const std::filesystem::path& path, const TensorInfo& tensor) {
  const InputFile file(path);
  std::vector<float> values = read_floats(file, tensor);
  require_finite_in_file(values, "safetensors", path, tensor.name);
  return values;
}

std::vector<std::int64_t> read_integer_tensor(const std::filesystem::path& path,
                                              const TensorInfo& tensor) {
  using Integer = std::int64_t;
  const InputFile file(path);
  const auto widen = [](auto value) { return static_cast<Integer>(value); };
  if (tensor.dtype == "I64") return read_as<Integer, Integer>(file, tensor, widen);
  if (tensor.dtype == "I32") return read_as<std::int32_t, Integer>(file, tensor, widen);
  if (tensor.dtype == "I16") return read_as<std::int16_t, Integer>(file, tensor, widen);
  if (tensor.dtype == "I8") return read_as<std::int8_t, Integer>(file, tensor, widen);
  if (tensor.dtype == "U8" || tensor.dtype == "BOOL")
    return read_as<std::uint8_t, Integer>(file, tensor, widen);
  refuse(file, tensor, "one of I64, I32, I16, I8, U8, BOOL");
}

void write_safetensors(const std::filesystem::path& path,
                       const std::vector<FloatTensor>& tensors,
                       const std::vector<IntegerTensor>& integers) {
  std::set<std::string> names{"__metadata__"};
  for (const FloatTensor& tensor : tensors) {
    check_tensor(tensor, names);
    require_finite(tensor.values, "safetensors", tensor.name);
  }
  for (const IntegerTensor& tensor : integers) check_tensor(tensor, names);
  const std::string header = header_of(tensors, integers);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.append(std::as_bytes(std::span(&length, 1)));
  file.append(std::as_bytes(std::span(header)));
  for (const IntegerTensor& tensor : integers) file.append(std::as_bytes(std::span(tensor.values)));
  for (const FloatTensor& tensor : tensors) file.append(std::as_bytes(std::span(tensor.values)));
  file.commit();
}

}  // namespace dimred::checkpoints
