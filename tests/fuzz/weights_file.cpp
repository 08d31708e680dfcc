#include "checkpoints/weights_file.h"

#include <array>
#include <cstring>
#include <tuple>

#include "support/binary.h"
#include "tests/fuzz/fuzz.h"

// A weight file of any kind, by its content, but for PyTorch's archives, which Python reads.
namespace {

std::string safetensors(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t size = header.size();
  std::array<char, sizeof size> length;
  std::memcpy(length.data(), &size, sizeof size);
  return std::string(length.data(), length.size()).append(header).append(data_bytes, '\1');
}

/// Protobuf: a delimited field of fewer than 128 bytes.
std::string field(int number, std::string_view content) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())}.append(
      content);
}

/// A Value of a checkpoint with eight bytes of content.
std::string mindspore(std::string_view tag, const std::string& dims, std::string_view type) {
  const auto tensor = dims + field(2, type) + field(3, std::string(8, '\1'));
  return field(1, field(1, tag) + field(2, tensor));
}

/// A list of a text, and a tensor of four numbers.
std::string gguf() {
  using std::string;
  constexpr std::uint32_t version = 3, list = 9, text = 8, dimensions = 1, float32 = 0;
  constexpr std::uint64_t one = 1, four = 4, offset = 0;
  string file = "GGUF";
  dimred::append(file, std::tuple(version, one, one));
  dimred::append(file, std::tuple(string("k"), list, text, one, string("t")));
  dimred::append(file, std::tuple(string("w"), dimensions, four, float32, offset));
  file.append(32 - file.size() % 32, '\0');
  return file.append(16, '\1');
}

}  // namespace

std::vector<std::string> dimred::fuzz::seeds() {
  return {safetensors(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                      R"("n":{"dtype":"I64","shape":[],"data_offsets":[24,32]}})",
                      32),
          safetensors(R"({"__metadata__":{"format":"pt"},)"
                      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})",
                      8),
          mindspore("conv.weight", std::string("\010\002\010\001", 4), "Float32") +
              mindspore("n", field(1, "\1"), "Int64"),
          gguf()};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  if (size > 1 && data[0] == 'P' && data[1] == 'K') return 0;
  const auto path = fuzz::file_with({data, size});
  fuzz::bear_errors([&] {
    if (checkpoints::read_weights(path).tensors.size() > size) __builtin_trap();
  });
  return 0;
}
