#include "checkpoints/mindspore_weights.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "checkpoints/float_formats.h"
#include "checkpoints/shape.h"
#include "support/atomic_file.h"
#include "support/bytes.h"
#include "support/errors.h"
#include "support/protobuf.h"

namespace dimred::checkpoints {
namespace {

constexpr std::string_view scope = "MindSpore";

template <class Stored, auto WeightTensor::*target, auto convert>
void append(Bytes bytes, WeightTensor& tensor) {
  for (std::size_t i = 0; i + sizeof(Stored) <= bytes.size(); i += sizeof(Stored)) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i, sizeof stored);
    (tensor.*target).push_back(convert(stored));
  }
}
template <class Stored, auto convert>
constexpr auto append_floats = append<Stored, &WeightTensor::values, convert>;
template <class Stored>
constexpr auto append_integers =
    append<Stored, &WeightTensor::integers, [](Stored value) -> std::int64_t { return value; }>;

struct Type {
  std::string_view name;
  std::int64_t bytes;
  bool floating;
  void (*append)(Bytes bytes, WeightTensor& tensor);  // little-endian elements behind its own
};
constexpr std::array types{
    Type{"Float32", 4, true, append_floats<float, [](float value) { return value; }>},
    Type{"Float16", 2, true, append_floats<std::uint16_t, from_half>},
    Type{"BFloat16", 2, true, append_floats<std::uint16_t, from_bfloat>},
    Type{"Float64", 8, true, append_floats<double, from_double>},
    Type{"Bool", 1, false, append_integers<std::uint8_t>},
    Type{"UInt8", 1, false, append_integers<std::uint8_t>},
    Type{"Int8", 1, false, append_integers<std::int8_t>},
    Type{"Int16", 2, false, append_integers<std::int16_t>},
    Type{"Int32", 4, false, append_integers<std::int32_t>},
    Type{"Int64", 8, false, append_integers<std::int64_t>}};

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

  protobuf::Fields fields(Bytes part) const { return {part, bytes.data(), scope}; }

  template <class... Values>
  void rule(bool holds,
            const Value& value,
            std::type_identity_t<FormatString<sizeof...(Values)>> text,
            const Values&... values) const {
    if (!holds)
      fail_environment("[{}] '{}': \"{}\" {}", scope, path, value.tag, formatted(text, values...));
  }
};

void read_tensor(const Message& message, Bytes content, Value& value) {
  value.is_tensor = true;
  auto fields = message.fields(content);
  for (protobuf::Field field; fields.next(field);) {
    if (field.number == 1 && field.wire == protobuf::Wire::varint)
      value.dims.push_back(field.value);
    if (field.number == 1 && field.wire == protobuf::Wire::delimited) {
      for (auto packed = message.fields(field.content); !packed.empty();)
        value.dims.push_back(packed.varint());
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

const Type& type_of(const Message& message, const Value& value) {
  const auto* const found = std::ranges::find(types, value.type, &Type::name);
  message.rule(found != types.end(), value, "has the element type {}, unknown here", value.type);
  return *found;
}

/// A scalar has the dimensions [0] and one element.
void check_size(const Message& message, const Value& last, WeightTensor& tensor) {
  const auto count = tensor.floating ? std::ssize(tensor.values) : std::ssize(tensor.integers);
  if (tensor.shape == std::vector<std::int64_t>{0} && count == 1) tensor.shape.clear();
  message.rule(product(tensor.shape) == count,
               last,
               "needs as many elements as its dimensions have, received {}",
               count);
}

void append_value(const Message& message, const Value& value, WeightTensor& tensor) {
  const auto& type = type_of(message, value);
  message.rule(std::ssize(value.content) % type.bytes == 0,
               value,
               "needs whole elements, received {} bytes of {}",
               value.content.size(),
               value.type);
  message.rule(value.dims == tensor.shape && type.floating == tensor.floating,
               value,
               "needs slices of one shape and kind, received another");
  type.append(value.content, tensor);
}

/// The message without the CRC-32 behind it, which is verified.
Bytes without_crc(Bytes bytes, const std::filesystem::path& path) {
  constexpr std::string_view mark = "crc_num";
  constexpr std::size_t number_bytes = 10;  // big-endian
  constexpr std::size_t tail = mark.size() + number_bytes;
  if (bytes.size() < tail || !text_of(bytes.last(tail)).starts_with(mark)) return bytes;
  std::uint64_t written = 0;
  for (const auto byte : bytes.last(8)) written = written << 8 | byte;
  const auto message = bytes.first(bytes.size() - tail);
  const auto actual = crc32_z(crc32_z(0, nullptr, 0), message.data(), message.size());
  require_environment(actual == written, "[MindSpore] '{}': is damaged: its CRC differs", path);
  return message;
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
    if (own.ends_with(theirs)) own.replace(own.size() - theirs.size(), theirs.size(), ours);
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
  const auto bytes = input.part(0, input.size());
  const Message message{without_crc(bytes_of(bytes), path), path};
  WeightsFile file{.format = std::string(scope), .tensors = {}};
  Value last;
  auto fields = message.fields(message.bytes);
  try {
    for (protobuf::Field field; fields.next(field);) {
      if (field.number != 1 || field.wire != protobuf::Wire::delimited) continue;
      const auto value = read_value(message, field.content);
      if (!value.is_tensor || value.type == "str") continue;
      if (file.tensors.empty() || file.tensors.back().name != value.tag) {
        if (!file.tensors.empty()) check_size(message, last, file.tensors.back());
        file.tensors.push_back({.name = std::string(value.tag),
                                .shape = value.dims,
                                .floating = type_of(message, value).floating});
      }
      append_value(message, value, file.tensors.back());
      last = value;
    }
  } catch (const std::runtime_error& error) {
    if (std::string_view(error.what()).find(path.string()) != std::string_view::npos) throw;
    fail_environment("[{}] '{}': is cut off, encrypted or no checkpoint: {}",
                     scope,
                     path,
                     std::string_view(error.what()).substr(scope.size() + 3));
  }
  require_environment(!file.tensors.empty(), "[MindSpore] '{}': has no tensor", path);
  check_size(message, last, file.tensors.back());
  return file;
}

}  // namespace dimred::checkpoints
