#include "checkpoints/tensor_table.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoints/mindspore_weights.h"
#include "checkpoints/read_pickle.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/shape.h"
#include "checkpoints/weights_file.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

using Table = std::vector<StoredTensor>;

Table safetensors_table(const fs::path& path) {
  Table table;
  for (const auto& tensor : read_safetensors_header(path)) {
    table.push_back(
        {tensor.name, tensor.dtype, tensor.shape, {}, {{tensor.elements, tensor.offset}}});
  }
  return table;
}

Table pytorch_table(const fs::path& path) {
  std::string text;
  read_pickle("table", "PyTorch", path, [&](ByteView bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  Table table;
  for (const auto& entry : nlohmann::json::parse(text)) {
    StoredTensor tensor{.name = entry.at(0), .dtype = entry.at(1), .shape = entry.at(2)};
    entry.at(3).get_to(tensor.stride);
    tensor.pieces.push_back({product(tensor.shape).value(), entry.at(4).get<std::int64_t>()});
    table.push_back(std::move(tensor));
  }
  return table;
}

/// The places of `count` elements in the file's order, from `first` on in the shape's order.
std::vector<std::int64_t> places_of(const StoredTensor& tensor,
                                    std::int64_t first,
                                    std::int64_t count) {
  std::vector<std::int64_t> places(count);
  for (std::int64_t i = 0; i < count; ++i) {
    auto rest = first + i;
    for (std::size_t axis = tensor.shape.size(); axis-- > 0; rest /= tensor.shape[axis])
      places[i] += rest % tensor.shape[axis] * tensor.stride[axis];
  }
  return places;
}

void read_strided(const ReadPiece& read,
                  const StoredTensor& tensor,
                  std::int64_t unit,
                  std::int64_t first,
                  std::span<std::byte> out) {
  const auto places = places_of(tensor, first, std::ssize(out) / unit);
  const auto [low, high] = std::ranges::minmax(places);
  std::vector<std::byte> stored((high - low + 1) * unit);
  const auto& piece = tensor.pieces.front();
  read(piece.file, piece.offset + low * unit, stored);
  for (std::size_t i = 0; i < places.size(); ++i)
    std::memcpy(out.data() + i * unit, stored.data() + (places[i] - low) * unit, unit);
}

}  // namespace

void read_stored(const ReadPiece& read,
                 const StoredTensor& tensor,
                 std::int64_t unit,
                 std::int64_t first,
                 std::span<std::byte> out) {
  if (out.empty()) return;
  if (!tensor.stride.empty()) return read_strided(read, tensor, unit, first, out);
  for (const auto& piece : tensor.pieces) {
    // Elements with fewer bits than a byte lie in one piece, whose unit is a byte.
    const bool only = tensor.pieces.size() == 1;
    const auto size = only ? std::ssize(out) : (piece.elements - first) * unit;
    const auto bytes = std::clamp<std::int64_t>(size, 0, std::ssize(out));
    if (bytes > 0) read(piece.file, piece.offset + first * unit, out.first(bytes));
    out = out.subspan(bytes);
    first = std::max<std::int64_t>(0, first - piece.elements);
  }
}

Table read_tensor_table(const fs::path& path) {
  if (path.extension() == ".safetensors") return safetensors_table(path);
  switch (weights_format(path)) {
    case WeightsFormat::safetensors:
      return safetensors_table(path);
    case WeightsFormat::pytorch:
      return pytorch_table(path);
    default:
      return mindspore_table(path);
  }
}

}  // namespace dimred::checkpoints
