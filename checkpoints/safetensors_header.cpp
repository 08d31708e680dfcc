#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/safetensors.h"
#include "support/errors.h"

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

template <class... Parts>
void rule(bool holds, const Parts&... parts) {
  if (!holds) throw std::runtime_error(concat(parts...));
}

/// Parses with limits that the plain parser lacks: no repeated key, at most four levels.
json parse_strictly(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto visit = [&](int depth, json::parse_event_t event, json& value) {
    rule(depth <= 4, "needs at most 4 levels of nesting");
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      const auto name = value.get<std::string>();
      rule(keys.back().insert(name).second, "needs different keys, received \"", name, "\" twice");
    }
    return true;
  };
  try {
    return json::parse(text, visit);
  } catch (const json::exception& error) {
    throw std::runtime_error(concat("the header is not JSON: ", error.what()));
  }
}

std::int64_t size_from(const json& value, const std::string& name) {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  rule(value.is_number_unsigned() && value.get<std::uint64_t>() <= kLargest,
       "\"",
       name,
       "\" needs sizes and offsets that are integers in [0, 2^63), received ",
       value.dump());
  return value.get<std::int64_t>();
}

std::int64_t dtype_bytes(const std::string& dtype, const std::string& name) {
  const auto found = std::ranges::find(kDtypes, dtype, &Dtype::name);
  rule(found != kDtypes.end(), "\"", name, "\" has the unknown dtype \"", dtype, "\"");
  return found->bytes;
}

TensorInfo tensor_from(const std::string& name, const json& row) {
  rule(row.is_object() && row.size() == 3 && row.contains("dtype") && row.contains("shape") &&
           row.contains("data_offsets"),
       "\"",
       name,
       "\" needs exactly dtype, shape and data_offsets");
  const json& offsets = row["data_offsets"];
  rule(row["dtype"].is_string() && row["shape"].is_array() && offsets.is_array() &&
           offsets.size() == 2,
       "\"",
       name,
       "\" needs a text dtype, a list shape and two data_offsets");
  TensorInfo tensor;
  tensor.name = name;
  tensor.dtype = row["dtype"].get<std::string>();
  tensor.elements = 1;
  for (const json& extent : row["shape"]) {
    tensor.shape.push_back(size_from(extent, name));
    rule(!__builtin_mul_overflow(tensor.elements, tensor.shape.back(), &tensor.elements),
         "\"",
         name,
         "\" has a shape that overflows");
  }
  std::int64_t bytes = 0;
  rule(!__builtin_mul_overflow(tensor.elements, dtype_bytes(tensor.dtype, name), &bytes),
       "\"",
       name,
       "\" has a shape that overflows");
  tensor.offset = size_from(offsets[0], name);
  const std::int64_t end = size_from(offsets[1], name);
  rule(tensor.offset <= end && end - tensor.offset == bytes,
       "\"",
       name,
       "\" needs ",
       bytes,
       " bytes for its shape, received data_offsets ",
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
  rule(text.starts_with('{'), "the header needs to start with '{'");
  const json header = parse_strictly(text);
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
         "\"",
         tensor.name,
         "\" needs to start at byte ",
         end,
         " of the data (no holes, no overlap), received ",
         tensor.offset);
    end += tensor.bytes;  // each end is at most 2^63 - 1, as checked
  }
  rule(end == data_bytes, "needs ", end, " bytes of data behind the header, received ", data_bytes);
  return tensors;
}

}  // namespace dimred::checkpoints
