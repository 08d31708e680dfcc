#include <zlib.h>

#include <algorithm>
#include <array>

#include "checkpoints/atomic_file.h"
#include "checkpoints/weights_readers.h"
#include "support/errors.h"
#include "support/protobuf.h"

namespace dimred::checkpoints {
namespace {

constexpr std::string_view place = "MindSpore";
using Bytes = std::span<const std::uint8_t>;

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Type {
  std::string_view name;
  ElementType type;
};
constexpr std::array types{Type{"Float32", ElementType::f32},
                           Type{"Float16", ElementType::f16},
                           Type{"BFloat16", ElementType::bf16},
                           Type{"Float64", ElementType::f64},
                           Type{"Bool", ElementType::boolean},
                           Type{"UInt8", ElementType::u8},
                           Type{"Int8", ElementType::i8},
                           Type{"Int16", ElementType::i16},
                           Type{"Int32", ElementType::i32},
                           Type{"Int64", ElementType::i64}};

/// One Value of the checkpoint: a tensor, or a slice of one.
struct Value {
  std::string_view tag;
  std::vector<std::int64_t> dims;
  std::string_view type;
  Bytes content;
  bool is_tensor = false;
};

struct Message {
  Bytes bytes;
  const std::filesystem::path& path;

  protobuf::Fields fields(Bytes part) const { return {part, bytes.data(), place}; }

  template <class... Parts>
  void rule(bool holds, const Value& value, const Parts&... parts) const {
    require_environment(holds, place, "'", path.string(), "': \"", value.tag, "\" ", parts...);
  }
};

void read_tensor(const Message& message, Bytes content, Value& value) {
  value.is_tensor = true;
  auto fields = message.fields(content);
  for (protobuf::Field field; fields.next(field);) {
    if (field.number == 1 && field.wire == protobuf::Wire::varint)
      value.dims.push_back(static_cast<std::int64_t>(field.value));
    if (field.number == 1 && field.wire == protobuf::Wire::delimited) {
      for (auto packed = message.fields(field.content); !packed.empty();)
        value.dims.push_back(static_cast<std::int64_t>(packed.varint()));
    }
    if (field.wire != protobuf::Wire::delimited) continue;
    if (field.number == 2) value.type = text_of(field.content);
    if (field.number == 3) value.content = field.content;
  }
}

Value read_value(const Message& message, Bytes content) {
  Value value;
  auto fields = message.fields(content);
  for (protobuf::Field field; fields.next(field);) {
    if (field.wire != protobuf::Wire::delimited) continue;
    if (field.number == 1) value.tag = text_of(field.content);
    if (field.number == 2) read_tensor(message, field.content, value);
  }
  return value;
}

ElementType type_of(const Message& message, const Value& value) {
  const auto* const found = std::ranges::find(types, value.type, &Type::name);
  message.rule(found != types.end(), value, "has the element type ", value.type, ", unknown here");
  return found->type;
}

/// A scalar has the dimensions [0] and one element.
void check_size(const Message& message, const Value& last, WeightTensor& tensor) {
  const auto count = tensor.floating ? std::ssize(tensor.values) : std::ssize(tensor.integers);
  if (tensor.shape == std::vector<std::int64_t>{0} && count == 1) tensor.shape.clear();
  std::int64_t elements = 1;
  bool fits = true;
  for (const std::int64_t extent : tensor.shape)
    fits = fits && extent >= 0 && !__builtin_mul_overflow(elements, extent, &elements);
  message.rule(fits && elements == count,
               last,
               "needs as many elements as its dimensions have, received ",
               count);
}

void append_value(const Message& message, const Value& value, WeightTensor& tensor) {
  const ElementType type = type_of(message, value);
  message.rule(std::ssize(value.content) % bytes_of(type) == 0,
               value,
               "needs whole elements, received ",
               value.content.size(),
               " bytes of ",
               value.type);
  message.rule(value.dims == tensor.shape && is_floating(type) == tensor.floating,
               value,
               "needs slices of one shape and kind, received another");
  append_elements(type, std::as_bytes(value.content), tensor);
}

/// The message without the CRC-32 behind it, which is verified.
Bytes without_crc(Bytes bytes, const std::filesystem::path& path) {
  constexpr std::string_view mark = "crc_num";
  constexpr std::size_t number_bytes = 10;  // big-endian
  constexpr std::size_t tail = mark.size() + number_bytes;
  if (bytes.size() < tail || !text_of(bytes.last(tail)).starts_with(mark)) return bytes;
  std::uint64_t written = 0;
  for (const auto byte : bytes.last(8)) written = written << 8 | byte;
  const Bytes message = bytes.first(bytes.size() - tail);
  const auto actual = crc32_z(crc32_z(0, nullptr, 0), message.data(), message.size());
  require_environment(
      actual == written, place, "'", path.string(), "': is damaged: its CRC differs");
  return message;
}

std::string replaced_end(std::string_view name, std::string_view end, std::string_view by) {
  return concat(name.substr(0, name.size() - end.size()), by);
}

}  // namespace

std::string name_from_mindspore(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> ends{
      {{".gamma", ".weight"},
       {".beta", ".bias"},
       {".moving_mean", ".running_mean"},
       {".moving_variance", ".running_var"}}};
  std::string own(name);
  for (const auto& [theirs, ours] : ends) {
    if (own.ends_with(theirs)) own = replaced_end(own, theirs, ours);
  }
  constexpr std::string_view branch = ".down_sample_layer.";  // of its ResNet
  if (const auto at = own.find(branch); at != std::string::npos)
    own.replace(at, branch.size(), ".downsample.");
  constexpr std::string_view head = "end_point.";
  if (own.starts_with(head)) own.replace(0, head.size(), "fc.");
  return own;
}

WeightsFile read_mindspore_weights(const std::filesystem::path& path) {
  const InputFile input(path);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(input.size()));
  input.read(0, std::as_writable_bytes(std::span(bytes)));
  const Message message{without_crc(bytes, path), path};
  WeightsFile file{.format = std::string(place), .tensors = {}};
  Value last;
  auto fields = message.fields(message.bytes);
  try {
    for (protobuf::Field field; fields.next(field);) {
      if (field.number != 1 || field.wire != protobuf::Wire::delimited) continue;
      const Value value = read_value(message, field.content);
      if (!value.is_tensor || value.type == "str") continue;
      if (file.tensors.empty() || file.tensors.back().name != value.tag) {
        if (!file.tensors.empty()) check_size(message, last, file.tensors.back());
        file.tensors.push_back({.name = std::string(value.tag),
                                .shape = value.dims,
                                .floating = is_floating(type_of(message, value))});
      }
      append_value(message, value, file.tensors.back());
      last = value;
    }
  } catch (const std::runtime_error& error) {
    if (std::string_view(error.what()).find(path.string()) != std::string_view::npos) throw;
    throw std::runtime_error(concat("[",
                                    place,
                                    "] '",
                                    path.string(),
                                    "': is cut off, encrypted or no checkpoint: ",
                                    std::string_view(error.what()).substr(place.size() + 3)));
  }
  require_environment(!file.tensors.empty(), place, "'", path.string(), "': has no tensor");
  check_size(message, last, file.tensors.back());
  return file;
}

}  // namespace dimred::checkpoints
