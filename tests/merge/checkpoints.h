#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoints/float_formats.h"
#include "checkpoints/safetensors.h"
#include "tests/tools/temporary_folder.h"

// Small checkpoints as other programs write them.
namespace dimred::merge {

namespace fs = std::filesystem;

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

struct Stored {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

inline Stored f32(const std::string& name, const std::vector<float>& values) {
  return {name, "F32", {std::ssize(values)}, raw(values)};
}
inline Stored bf16(const std::string& name, const std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (const float value : values) bits.push_back(checkpoints::to_bfloat(value));
  return {name, "BF16", {std::ssize(values)}, raw(bits)};
}
inline Stored i64(const std::string& name, const std::vector<std::int64_t>& values) {
  return {name, "I64", {std::ssize(values)}, raw(values)};
}

inline std::string safetensors(const std::vector<Stored>& tensors) {
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  auto text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return raw(std::vector<std::uint64_t>{text.size()}) + text + data;
}

/// A folder as Hugging Face's: one file, or shards with an index.
inline void put_checkpoint(const fs::path& folder, const std::vector<std::vector<Stored>>& shards) {
  fs::create_directories(folder);
  put_file(folder / "config.json", R"({"hidden_size": 4, "torch_dtype": "float32"})");
  if (shards.size() == 1) return put_file(folder / "model.safetensors", safetensors(shards[0]));
  nlohmann::json index{{"metadata", {{"total_size", 0}, {"total_parameters", 9}}}};
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto name = "model-0000" + std::to_string(i + 1) + "-of-0000" +
                      std::to_string(shards.size()) + ".safetensors";
    put_file(folder / name, safetensors(shards[i]));
    for (const auto& tensor : shards[i]) index["weight_map"][tensor.name] = name;
  }
  put_file(folder / "model.safetensors.index.json", index.dump(2));
}

/// The bytes of a tensor of a safetensors file.
inline std::string bytes_of(const fs::path& file, const std::string& name) {
  for (const auto& tensor : checkpoints::read_safetensors_header(file))
    if (tensor.name == name) return text_of_file(file).substr(tensor.offset, tensor.bytes);
  return "no such tensor";
}

}  // namespace dimred::merge
