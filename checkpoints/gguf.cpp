#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string_view>

#include "checkpoints/safetensors.h"
#include "checkpoints/shape.h"
#include "checkpoints/stored_tensor.h"
#include "checkpoints/weights_format.h"
#include "support/atomic_file.h"
#include "support/binary.h"
#include "support/ceiling.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/utf8.h"

// Source: the description of the format at https://github.com/ggml-org/ggml
namespace dimred::checkpoints {
namespace {

/// Reads a value of the file's description; returns it if it is a number of up to 32 bits.
std::uint32_t entry_value(ByteReader& file, std::uint32_t type) {
  constexpr std::uint32_t text = 8, list = 9;
  constexpr std::array<std::uint64_t, 13> sizes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  require_environment(type < sizes.size(), "needs types of values below 13, received {}", type);
  if (type == text) file.take(file.number<std::uint64_t>());
  if (type == list) {
    const auto of = file.number<std::uint32_t>();
    require_environment(of != list, "needs lists of numbers or texts, received a list of lists");
    for (auto left = file.count(1); left > 0; --left) entry_value(file, of);
  }
  std::uint32_t value = 0;
  const auto bytes = file.take(sizes[type]);
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

/// The place is counted from the end of the description.
StoredTensor gguf_tensor(ByteReader& file) {
  static const std::map<std::uint32_t, std::string> types{{0, "F32"},
                                                          {1, "F16"},
                                                          {24, "I8"},
                                                          {25, "I16"},
                                                          {26, "I32"},
                                                          {27, "I64"},
                                                          {28, "F64"},
                                                          {30, "BF16"}};
  StoredTensor tensor;
  file.read(tensor.name);
  const auto name = printable(tensor.name);
  require_environment(
      utf8_text(tensor.name) == tensor.name, "needs names in UTF-8, received {}", name);
  const auto dimensions = file.number<std::uint32_t>();
  require_environment(
      dimensions <= 4, "\"{}\" needs 0 to 4 dimensions, received {}", name, dimensions);
  tensor.shape.resize(dimensions);
  for (auto& extent : tensor.shape) file.read(extent);
  std::ranges::reverse(tensor.shape);  // the dimension whose elements lie together comes first
  const auto type = file.number<std::uint32_t>();
  const auto known = types.find(type);
  require_environment(
      known != types.end(),
      "\"{}\" needs a type without quantisation, such as F16, received ggml's type {}",
      name,
      type);
  tensor.dtype = known->second;
  const auto elements = product(tensor.shape);
  require_environment(elements.has_value(),
                      "\"{}\" needs a shape of fewer elements, received {}",
                      name,
                      extents_text(tensor.shape));
  tensor.boxes = {run_of(0, *elements, file.number<std::int64_t>())};
  return tensor;
}

constexpr std::int64_t largest_description = 100'000'000;

/// Tensors of a file of `size` bytes that begins with `bytes`. They lie in the order of their
/// descriptions, each at the first multiple of the alignment behind the one before.
std::vector<StoredTensor> read_gguf(Bytes bytes, std::int64_t size) {
  ByteReader file(bytes, "GGUF");
  file.take(4);
  const auto version = file.number<std::uint32_t>();
  require_environment(
      version == 2 || version == 3, "needs version 2 or 3 of the format, received {}", version);
  constexpr std::uint64_t most = 1'000'000;
  const auto count = file.number<std::uint64_t>();
  require_environment(
      count > 0 && count <= most, "needs 1 to {} tensors, received {}", most, count);
  std::int64_t alignment = 32;
  for (auto left = file.number<std::uint64_t>(); left > 0; --left) {
    std::string key;
    file.read(key);
    const auto type = file.number<std::uint32_t>();
    const auto value = entry_value(file, type);
    require_environment(key != "split.count" || value <= 1,
                        "the file is one of {} parts; join them with gguf-split --merge",
                        value);
    if (key != "general.alignment") continue;
    require_environment(type == 4 && value > 0, "needs general.alignment as a UINT32 > 0");
    alignment = value;
  }
  std::vector<StoredTensor> tensors;
  while (tensors.size() < count) tensors.push_back(gguf_tensor(file));
  auto begin = std::ssize(bytes) - static_cast<std::int64_t>(file.left());
  begin = ceiling(begin, alignment) * alignment;
  std::int64_t end = 0;
  for (auto& tensor : tensors) {
    auto& offset = tensor.boxes.front().offset;
    const auto expected = ceiling(end, alignment) * alignment;
    const auto name = printable(tensor.name);
    require_environment(
        offset == expected, "\"{}\" needs the offset {}, received {}", name, expected, offset);
    const auto needed = product(tensor.shape, tensor.unit());
    require_environment(needed && *needed <= size - begin - offset,
                        "the data are incomplete: \"{}\" ends behind the file's end",
                        name);
    end = offset + *needed;
    offset += begin;
  }
  return tensors;
}

std::vector<StoredTensor> gguf_table(const std::filesystem::path& path) {
  const InputFile file(path);
  const auto head = file.part(0, std::min<std::int64_t>(file.size(), largest_description));
  try {
    return read_gguf(bytes_of(head), file.size());
  } catch (const std::runtime_error& error) {
    std::string_view reason(error.what());
    if (reason.starts_with("[GGUF] ")) reason.remove_prefix(7);
    fail_environment("[GGUF] '{}': {}", path, reason);
  }
}

}  // namespace

const WeightsFormat gguf_format{
    .name = "GGUF",
    .begins = [](std::string_view head) { return head.starts_with("GGUF"); },
    .table = gguf_table};

}  // namespace dimred::checkpoints
