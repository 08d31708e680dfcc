#include "checkpoints/mindspore_weights.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "checkpoints/shape.h"
#include "checkpoints/stored_tensor.h"
#include "checkpoints/weights_format.h"
#include "support/atomic_file.h"
#include "support/bytes.h"
#include "support/errors.h"
#include "support/mapped_file.h"
#include "support/protobuf.h"
#include "support/utf8.h"

// Protobuf Checkpoint { repeated Value { tag = 1; TensorProto tensor = 2 } value = 1 } with
// TensorProto { repeated int64 dims = 1; tensor_type = 2; tensor_content = 3 }; a large tensor
// comes in several values of one tag; maybe "crc_num" and a CRC-32 of 10 bytes at the end. Source:
// mindspore/ccsrc/utils/checkpoint.proto, mindspore/train/serialization.py.
namespace dimred::checkpoints {
namespace {

constexpr std::string_view scope = "MindSpore";

struct ElementType {
  std::string_view name;
  std::int64_t bytes;
  std::string_view dtype;  // as safetensors names it
};
constexpr std::array types{ElementType{"Float32", 4, "F32"},
                           ElementType{"Float16", 2, "F16"},
                           ElementType{"BFloat16", 2, "BF16"},
                           ElementType{"Float64", 8, "F64"},
                           ElementType{"Bool", 1, "BOOL"},
                           ElementType{"UInt8", 1, "U8"},
                           ElementType{"Int8", 1, "I8"},
                           ElementType{"Int16", 2, "I16"},
                           ElementType{"Int32", 4, "I32"},
                           ElementType{"Int64", 8, "I64"}};

/// One Value of the checkpoint: a tensor, or a slice of one.
struct CheckpointValue {
  std::string_view tag;
  std::vector<std::int64_t> dims;
  std::string_view type;
  Bytes content;
  bool is_tensor = false;
};

struct CheckpointMessage {
  Bytes bytes;
  std::filesystem::path path;

  protobuf::Fields fields(Bytes part) const { return {part, bytes.data(), scope}; }

  template <class... Values>
  void rule(bool holds,
            const CheckpointValue& value,
            std::type_identity_t<FormatString<sizeof...(Values)>> text,
            const Values&... values) const {
    if (!holds)
      fail_environment("[{}] '{}': \"{}\" {}", scope, path, value.tag, formatted(text, values...));
  }
};

void read_tensor(const CheckpointMessage& message, Bytes content, CheckpointValue& value) {
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

CheckpointValue read_value(const CheckpointMessage& message, Bytes content) {
  CheckpointValue value;
  auto fields = message.fields(content);
  for (protobuf::Field field; fields.next(field);) {
    if (field.wire != protobuf::Wire::delimited) continue;
    if (field.number == 1) value.tag = text_of(field.content);
    if (field.number == 2) read_tensor(message, field.content, value);
  }
  return value;
}

const ElementType& type_of(const CheckpointMessage& message, const CheckpointValue& value) {
  const auto* const found = std::ranges::find(types, value.type, &ElementType::name);
  message.rule(found != types.end(), value, "has the unknown element type {}", value.type);
  return *found;
}

/// A tensor, whose slices a large one has one behind the other.
struct SlicedTensor {
  CheckpointValue first;
  const ElementType* type = nullptr;
  std::vector<std::int64_t> shape;
  std::vector<Bytes> slices;

  std::int64_t elements() const {
    std::int64_t bytes = 0;
    for (const auto slice : slices) bytes += std::ssize(slice);
    return bytes / type->bytes;
  }
};

void add_slice(const CheckpointMessage& message,
               const CheckpointValue& value,
               SlicedTensor& tensor) {
  const auto& type = type_of(message, value);
  message.rule(std::ssize(value.content) % type.bytes == 0,
               value,
               "needs whole elements, received {} bytes of {}",
               value.content.size(),
               value.type);
  message.rule(value.dims == tensor.shape && (tensor.slices.empty() || tensor.type == &type),
               value,
               "needs slices of one shape and type, received another");
  tensor.type = &type;
  tensor.slices.push_back(value.content);
}

/// A scalar has the dimensions [0] and one element.
void check_size(const CheckpointMessage& message, SlicedTensor& tensor) {
  const auto count = tensor.elements();
  if (tensor.shape == std::vector<std::int64_t>{0} && count == 1) tensor.shape.clear();
  message.rule(product(tensor.shape) == count,
               tensor.first,
               "needs as many elements as the shape says, received {}",
               count);
}

/// The length of the message before the CRC-32 behind it, which is verified in one pass.
std::int64_t verified_length(const InputFile& file) {
  constexpr std::string_view mark = "crc_num";
  constexpr std::int64_t number_bytes = 10;  // big-endian
  constexpr std::int64_t tail = std::ssize(mark) + number_bytes;
  const auto length = file.size() - tail;
  if (length < 0) return file.size();
  const auto end = file.part(length, tail);
  if (!end.starts_with(mark)) return file.size();
  std::uint64_t written = 0;
  for (const auto byte : bytes_of(end).last(8)) written = written << 8 | byte;
  auto actual = crc32_z(0, nullptr, 0);
  file.read(0, length, [&](ByteView part) {
    actual = crc32_z(actual, reinterpret_cast<const Bytef*>(part.data()), part.size());
  });
  require_environment(actual == written,
                      "[MindSpore] '{}' is damaged: the checksum (CRC) does not match the content",
                      file.path());
  return length;
}

std::vector<SlicedTensor> tensors_of(const CheckpointMessage& message) {
  std::vector<SlicedTensor> tensors;
  auto fields = message.fields(message.bytes);
  for (protobuf::Field field; fields.next(field);) {
    if (field.number != 1 || field.wire != protobuf::Wire::delimited) continue;
    const auto value = read_value(message, field.content);
    if (!value.is_tensor || value.type == "str") continue;
    require_environment(utf8_text(value.tag) == value.tag,
                        "[{}] '{}' needs names in UTF-8, received '{}'",
                        scope,
                        message.path,
                        utf8_text(value.tag));
    if (tensors.empty() || tensors.back().first.tag != value.tag)
      tensors.push_back({.first = value, .shape = value.dims, .slices = {}});
    add_slice(message, value, tensors.back());
  }
  for (auto& tensor : tensors) check_size(message, tensor);
  require_environment(!tensors.empty(), "[MindSpore] '{}' has no tensor", message.path);
  return tensors;
}

std::vector<StoredTensor> mindspore_table(const std::filesystem::path& path) {
  const auto length = verified_length(InputFile(path));
  const MappedFile file(path);
  require_environment(std::cmp_greater_equal(file.bytes().size(), length),
                      "[MindSpore] '{}' became shorter while dimred was reading the file",
                      path);
  const CheckpointMessage message{file.bytes().first(length), path};
  std::vector<StoredTensor> table;
  try {
    for (const auto& from : tensors_of(message)) {
      auto& tensor = table.emplace_back();
      tensor.name = from.first.tag;
      tensor.dtype = from.type->dtype;
      tensor.shape = from.shape;
      std::int64_t begin = 0;
      for (const auto slice : from.slices) {
        const std::int64_t count = std::ssize(slice) / from.type->bytes;
        const auto offset = slice.empty() ? 0 : slice.data() - file.bytes().data();
        tensor.boxes.push_back(run_of(begin, count, offset));
        begin += count;
      }
    }
    return table;
  } catch (const std::runtime_error& error) {
    if (std::string_view(error.what()).find(path.string()) != std::string_view::npos) throw;
    fail_environment("[{}] '{}' is cut off, encrypted or not a MindSpore checkpoint: {}",
                     scope,
                     path,
                     std::string_view(error.what()).substr(scope.size() + 3));
  }
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

// A message of protobuf, whose first field is a Value.
const WeightsFormat mindspore_format{
    .name = scope,
    .begins = [](std::string_view head) { return head.starts_with("\x0a"); },
    .table = mindspore_table,
    .pytorch_name = name_from_mindspore};

}  // namespace dimred::checkpoints
