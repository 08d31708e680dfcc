#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/atomic_file.h"

// safetensors: 8 bytes of header length, a JSON header, then the tensors without gaps.
// Format: https://github.com/huggingface/safetensors (header <= 100 MB, starts with '{', offsets
// contiguous, no overlap, no holes, file fully covered, no duplicate keys).
namespace dimred::checkpoints {

struct TensorInfo {
  std::string name;
  std::string dtype;  // "F32", "F64", "F16", "BF16", "I64", ...
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
  std::int64_t offset = 0;  // bytes from the start of the file
  std::int64_t bytes = 0;
};

/// Strict header check, all arithmetic overflow-safe, before anything is allocated. In file order
/// of the data. Throws std::invalid_argument when missing, std::runtime_error("[safetensors] file:
/// rule").
std::vector<TensorInfo> read_safetensors_header(const std::filesystem::path& path);

/// The texts that a file's header holds beside its tensors (__metadata__). Throws as
/// read_safetensors_header() for a header that is none.
std::map<std::string, std::string> read_safetensors_metadata(const std::filesystem::path& path);

/// Checks the JSON text alone, as above; `data_bytes` follow it in the file. Offsets
/// are counted from the start of the data.
std::vector<TensorInfo> parse_safetensors_header(std::string_view text, std::int64_t data_bytes);

/// Returns true for types that are read as float32: F32, F64, F16 and BF16.
bool is_float_type(std::string_view dtype);
/// Returns true for types that are read as int64: I64, I32, I16, I8, U8 and BOOL.
bool is_integer_type(std::string_view dtype);

/// Bits of an element, of all 22 types of the format; 0: no type of it.
std::int64_t bits_of(std::string_view dtype);

/// Fills what it is given with the bytes of elements, as their file has them.
using ReadBytes = std::function<void(std::span<std::byte>)>;

/// out.size() elements of such a tensor, whose bytes `read` gives. Values that are not finite as
/// float32 stay so.
void read_floats(const ReadBytes& read, std::string_view dtype, std::span<float> out);
void read_integers(const ReadBytes& read, std::string_view dtype, std::span<std::int64_t> out);

template <class Value>
struct ValuedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<Value> values;
};
using FloatTensor = ValuedTensor<float>;
using IntegerTensor = ValuedTensor<std::int64_t>;

/// Throws std::invalid_argument for the name that the format keeps for the texts of a header: a
/// file with such a tensor could not be read.
void require_tensor_name(std::string_view name);

/// How a file with this header begins: its length and its text, padded with spaces, so that the
/// data starts at a multiple of 8 bytes.
std::string safetensors_head(const nlohmann::ordered_json& header);

/// Writes I64 tensors, then F32 ones (so that all are aligned), as given, atomically. Throws
/// std::invalid_argument when a name repeats, a shape does not have as many elements as there are
/// values, or a value is not finite.
void write_safetensors(const std::filesystem::path& path,
                       const std::vector<FloatTensor>& tensors,
                       const std::vector<IntegerTensor>& integers = {});

}  // namespace dimred::checkpoints
