#include "checkpoints/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "checkpoints/finite.h"
#include "checkpoints/float_formats.h"
#include "checkpoints/shape.h"
#include "checkpoints/weights_format.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;

/// Elements as another type.
template <class Value>
using Reader = void (*)(const ReadBytes& read, std::span<Value> out);

template <class Stored, class Value, auto convert>
void read_as(const ReadBytes& read, std::span<Value> out) {
  std::vector<Stored> stored(out.size());
  read(std::as_writable_bytes(std::span(stored)));
  std::ranges::transform(stored, out.begin(), convert);
}

template <class Value>
void read_same(const ReadBytes& read, std::span<Value> out) {
  read(std::as_writable_bytes(out));
}

using Integer = std::int64_t;
template <class Stored>
constexpr Reader<Integer> widened = read_as<Stored, Integer, [](Stored v) { return Integer{v}; }>;

struct Dtype {
  std::string_view name;
  std::int64_t bits;
  Reader<float> floats = nullptr;      // of a type that becomes float32
  Reader<Integer> integers = nullptr;  // of one that becomes int64
};
constexpr std::array dtypes_of_files{Dtype{"BOOL", 8, nullptr, widened<std::uint8_t>},
                                     Dtype{"F4", 4},
                                     Dtype{"F6_E2M3", 6},
                                     Dtype{"F6_E3M2", 6},
                                     Dtype{"U8", 8, nullptr, widened<std::uint8_t>},
                                     Dtype{"I8", 8, nullptr, widened<std::int8_t>},
                                     Dtype{"F8_E5M2", 8},
                                     Dtype{"F8_E4M3", 8},
                                     Dtype{"F8_E8M0", 8},
                                     Dtype{"F8_E4M3FNUZ", 8},
                                     Dtype{"F8_E5M2FNUZ", 8},
                                     Dtype{"I16", 16, nullptr, widened<std::int16_t>},
                                     Dtype{"U16", 16},
                                     Dtype{"F16", 16, read_as<std::uint16_t, float, from_half>},
                                     Dtype{"BF16", 16, read_as<std::uint16_t, float, from_bfloat>},
                                     Dtype{"I32", 32, nullptr, widened<std::int32_t>},
                                     Dtype{"U32", 32},
                                     Dtype{"F32", 32, read_same<float>},
                                     Dtype{"C64", 64},
                                     Dtype{"F64", 64, read_as<double, float, from_double>},
                                     Dtype{"I64", 64, nullptr, read_same<Integer>},
                                     Dtype{"U64", 64}};

std::int64_t size_from(const json& value, const std::string& name) {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  require_environment(value.is_number_unsigned() && value.get<std::uint64_t>() <= largest,
                      "\"{}\" needs sizes and offsets that are integers in [0, 2^63), received {}",
                      name,
                      value.dump());
  return value.get<std::int64_t>();
}

/// nullptr: unknown.
const Dtype* dtype_of(std::string_view name) {
  const auto* const found = std::ranges::find(dtypes_of_files, name, &Dtype::name);
  return found == dtypes_of_files.end() ? nullptr : found;
}

TensorInfo tensor_from(const std::string& name, const json& row) {
  require_environment(row.is_object() && row.size() == 3 && row.contains("dtype") &&
                          row.contains("shape") && row.contains("data_offsets"),
                      "\"{}\" needs exactly the keys dtype, shape and data_offsets",
                      name);
  const auto& offsets = row["data_offsets"];
  require_environment(
      row["dtype"].is_string() && row["shape"].is_array() && offsets.is_array() &&
          offsets.size() == 2,
      "\"{}\" needs dtype as a text, shape as a list, and data_offsets as two numbers",
      name);
  TensorInfo tensor;
  tensor.name = name;
  tensor.dtype = row["dtype"].get<std::string>();
  for (const auto& extent : row["shape"]) tensor.shape.push_back(size_from(extent, name));
  const Dtype* const dtype = dtype_of(tensor.dtype);
  require_environment(dtype != nullptr, "\"{}\" has the unknown dtype \"{}\"", name, tensor.dtype);
  const auto elements = product(tensor.shape);
  const auto bits = elements ? product({*elements, dtype->bits}) : std::nullopt;
  require_environment(bits.has_value(), "\"{}\" has a shape that needs 2^63 bits or more", name);
  require_environment(*bits % 8 == 0, "\"{}\" needs whole bytes, received {} bits", name, *bits);
  tensor.elements = *elements;
  tensor.bytes = *bits / 8;
  tensor.offset = size_from(offsets[0], name);
  const auto end = size_from(offsets[1], name);
  require_environment(tensor.offset <= end && end - tensor.offset == tensor.bytes,
                      "\"{}\" needs {} bytes for its shape, received data_offsets {}",
                      name,
                      tensor.bytes,
                      offsets.dump());
  return tensor;
}

void check_metadata(const json& metadata) {
  require_environment(
      metadata.is_object() &&
          std::ranges::all_of(metadata, [](const json& value) { return value.is_string(); }),
      "__metadata__ needs to map texts to texts");
}

constexpr std::int64_t largest_header = 100'000'000;  // the format's own limit

/// Adds one tensor's entry behind `offset`, which moves to its end.
template <class Tensor>
void add_entry(nlohmann::ordered_json& header,
               const Tensor& tensor,
               const char* dtype,
               std::int64_t& offset) {
  constexpr std::int64_t value_bytes = sizeof(tensor.values[0]);
  const auto end = offset + std::ssize(tensor.values) * value_bytes;
  header[tensor.name] = {
      {"dtype", dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
  offset = end;
}

std::string head_of(const std::vector<FloatTensor>& tensors,
                    const std::vector<IntegerTensor>& integers) {
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::int64_t offset = 0;
  for (const auto& tensor : integers) add_entry(header, tensor, "I64", offset);
  for (const auto& tensor : tensors) add_entry(header, tensor, "F32", offset);
  return safetensors_head(header);
}

template <class Tensor>
void check_tensor(const Tensor& tensor, std::set<std::string>& names) {
  require(names.insert(tensor.name).second,
          "[safetensors] needs different names, received '{}' twice",
          tensor.name);
  require(product(tensor.shape) == std::ssize(tensor.values),
          "[safetensors] '{}' needs as many values as the shape says, received {}",
          tensor.name,
          tensor.values.size());
}

}  // namespace

std::vector<TensorInfo> parse_safetensors_header(std::string_view text, std::int64_t data_bytes) {
  require_environment(text.starts_with('{'), "the header needs to start with '{{'");
  auto limits = table_json_limits;
  limits.bytes = largest_header;
  limits.depth = 4;
  std::vector<TensorInfo> tensors;
  for_each_member(text, "the header", limits, [&](const std::string& name, const json& row) {
    if (name == "__metadata__") {
      check_metadata(row);
    } else {
      tensors.push_back(tensor_from(name, row));
    }
  });
  std::ranges::sort(tensors, [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  std::int64_t end = 0;
  for (const auto& tensor : tensors) {
    require_environment(
        tensor.offset == end,
        "\"{}\" needs to start at byte {} of the data (no holes, no overlap), received {}",
        tensor.name,
        end,
        tensor.offset);
    end += tensor.bytes;  // each end is at most 2^63 - 1, as checked
  }
  require_environment(
      end == data_bytes, "needs {} bytes of data after the header, received {}", end, data_bytes);
  return tensors;
}

namespace {

/// The JSON text of a file's header.
std::string text_of_header(const InputFile& file) {
  const auto& path = file.path();
  std::uint64_t length = 0;
  require_environment(file.size() >= 8,
                      "[safetensors] '{}': needs 8 bytes for the length of the header, received {}",
                      path,
                      file.size());
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  const bool fits =
      std::cmp_less_equal(length, largest_header) && std::cmp_less_equal(length, file.size() - 8);
  require_environment(fits,
                      "[safetensors] '{}': needs a header of at most {} bytes, received {}{}",
                      path,
                      std::min(largest_header, file.size() - 8),
                      length,
                      fits ? "" : file.placeholder_remark() + packing_remark(file));
  return file.part(8, static_cast<std::int64_t>(length));
}

}  // namespace

std::map<std::string, std::string> read_safetensors_metadata(const fs::path& path) {
  auto limits = table_json_limits;
  limits.bytes = largest_header;
  std::map<std::string, std::string> metadata;
  const auto take = [&](const std::string& name, const json& row) {
    if (name != "__metadata__") return;
    check_metadata(row);
    row.get_to(metadata);
  };
  for_each_member(text_of_header(InputFile(path)), path.string(), limits, take);
  return metadata;
}

std::vector<TensorInfo> read_safetensors_header(const fs::path& path) {
  const InputFile file(path);
  const auto text = text_of_header(file);
  const auto data = 8 + std::ssize(text);
  try {
    auto tensors = parse_safetensors_header(text, file.size() - data);
    for (auto& tensor : tensors) tensor.offset += data;
    return tensors;
  } catch (const std::runtime_error& error) {
    fail_environment("[safetensors] '{}': {}", path, error.what());
  }
}

bool is_float_type(std::string_view dtype) {
  const Dtype* const known = dtype_of(dtype);
  return known != nullptr && known->floats != nullptr;
}

bool is_integer_type(std::string_view dtype) {
  const Dtype* const known = dtype_of(dtype);
  return known != nullptr && known->integers != nullptr;
}

std::int64_t bits_of(std::string_view dtype) {
  const Dtype* const known = dtype_of(dtype);
  return known == nullptr ? 0 : known->bits;
}

void read_floats(const ReadBytes& read, std::string_view dtype, std::span<float> out) {
  dtype_of(dtype)->floats(read, out);
}

void read_integers(const ReadBytes& read, std::string_view dtype, std::span<std::int64_t> out) {
  dtype_of(dtype)->integers(read, out);
}

void require_tensor_name(std::string_view name) {
  require(name != "__metadata__",
          "[safetensors] needs tensor names other than \"__metadata__\", because the format keeps "
          "this name for the texts of a header; dimred convert --rename gives the tensor another "
          "name");
}

std::string safetensors_head(const nlohmann::ordered_json& header) {
  auto text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

void write_safetensors(const fs::path& path,
                       const std::vector<FloatTensor>& tensors,
                       const std::vector<IntegerTensor>& integers) {
  std::set<std::string> names{"__metadata__"};
  for (const auto& tensor : tensors) {
    check_tensor(tensor, names);
    require_finite(tensor.values, "safetensors", tensor.name);
  }
  for (const auto& tensor : integers) check_tensor(tensor, names);
  const auto head = head_of(tensors, integers);
  AtomicFile file(path);
  file.append(head);
  for (const auto& tensor : integers) file.append(tensor.values);
  for (const auto& tensor : tensors) file.append(tensor.values);
  file.commit();
}

}  // namespace dimred::checkpoints
