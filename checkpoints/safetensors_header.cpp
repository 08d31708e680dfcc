#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoints/safetensors.h"
#include "support/errors.h"
#include "support/json.h"

namespace dimred::checkpoints {
namespace {

using nlohmann::json;

struct Dtype {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array kDtypes{Dtype{"BOOL", 1},
                             Dtype{"U8", 1},
                             Dtype{"I8", 1},
                             Dtype{"F8_E5M2", 1},
                             Dtype{"F8_E4M3", 1},
                             Dtype{"I16", 2},
                             Dtype{"U16", 2},
                             Dtype{"F16", 2},
                             Dtype{"BF16", 2},
                             Dtype{"I32", 4},
                             Dtype{"U32", 4},
                             Dtype{"F32", 4},
                             Dtype{"F64", 8},
                             Dtype{"I64", 8},
                             Dtype{"U64", 8},
                             Dtype{"C64", 8}};

template <class... Values>
void rule(bool holds,
          std::type_identity_t<FormatString<sizeof...(Values)>> text,
          const Values&... values) {
  require_environment(holds, text, values...);
}

std::int64_t size_from(const json& value, const std::string& name) {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  rule(value.is_number_unsigned() && value.get<std::uint64_t>() <= kLargest,
       "\"{}\" needs sizes and offsets that are integers in [0, 2^63), received {}",
       name,
       value.dump());
  return value.get<std::int64_t>();
}

std::int64_t dtype_bytes(const std::string& dtype, const std::string& name) {
  const auto found = std::ranges::find(kDtypes, dtype, &Dtype::name);
  rule(found != kDtypes.end(), "\"{}\" has the unknown dtype \"{}\"", name, dtype);
  return found->bytes;
}

TensorInfo tensor_from(const std::string& name, const json& row) {
  rule(row.is_object() && row.size() == 3 && row.contains("dtype") && row.contains("shape") &&
           row.contains("data_offsets"),
       "\"{}\" needs exactly dtype, shape and data_offsets",
       name);
  const json& offsets = row["data_offsets"];
  rule(row["dtype"].is_string() && row["shape"].is_array() && offsets.is_array() &&
           offsets.size() == 2,
       "\"{}\" needs a text dtype, a list shape and two data_offsets",
       name);
  TensorInfo tensor;
  tensor.name = name;
  tensor.dtype = row["dtype"].get<std::string>();
  tensor.elements = 1;
  for (const json& extent : row["shape"]) {
    tensor.shape.push_back(size_from(extent, name));
    rule(!__builtin_mul_overflow(tensor.elements, tensor.shape.back(), &tensor.elements),
         "\"{}\" has a shape that overflows",
         name);
  }
  std::int64_t bytes = 0;
  rule(!__builtin_mul_overflow(tensor.elements, dtype_bytes(tensor.dtype, name), &bytes),
       "\"{}\" has a shape that overflows",
       name);
  tensor.offset = size_from(offsets[0], name);
  const std::int64_t end = size_from(offsets[1], name);
  rule(tensor.offset <= end && end - tensor.offset == bytes,
       "\"{}\" needs {} bytes for its shape, received data_offsets {}",
       name,
       bytes,
       offsets.dump());
  tensor.bytes = bytes;
  return tensor;
}

void check_metadata(const json& metadata) {
  rule(metadata.is_object() &&
           std::ranges::all_of(metadata, [](const json& value) { return value.is_string(); }),
       "__metadata__ needs to be texts only");
}

}  // namespace

std::vector<TensorInfo> parse_safetensors_header(std::string_view text, std::int64_t data_bytes) {
  rule(text.starts_with('{'), "the header needs to start with '{{'");
  const json header = parse_json(text, "the header", {.depth = 4});
  std::vector<TensorInfo> tensors;
  for (const auto& [name, row] : header.items()) {
    if (name == "__metadata__") {
      check_metadata(row);
    } else {
      tensors.push_back(tensor_from(name, row));
    }
  }
  std::ranges::sort(tensors, [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  std::int64_t end = 0;
  for (const TensorInfo& tensor : tensors) {
    rule(tensor.offset == end,
         "\"{}\" needs to start at byte {} of the data (no holes, no overlap), received {}",
         tensor.name,
         end,
         tensor.offset);
    end += tensor.bytes;  // each end is at most 2^63 - 1, as checked
  }
  rule(end == data_bytes, "needs {} bytes of data behind the header, received {}", end, data_bytes);
  return tensors;
}

}  // namespace dimred::checkpoints
