#include "checkpoints/tensor_table.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

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
  // What lies nearer than this is read along; a longer gap costs more than another call.
  const auto widest = 64 / unit;
  const auto longest = (std::int64_t{1} << 20) / unit;  // of what is read at once
  const auto places = places_of(tensor, first, std::ssize(out) / unit);
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return places[i]; });
  const auto& piece = tensor.pieces.front();
  std::vector<std::byte> stored;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const auto low = places[order[begin]];
    for (end = begin + 1; end < order.size(); ++end) {
      const auto next = places[order[end]];
      if (next - places[order[end - 1]] > widest || next - low >= longest) break;
    }
    stored.resize((places[order[end - 1]] - low + 1) * unit);
    read(piece.file, piece.offset + low * unit, stored);
    for (std::size_t i = begin; i < end; ++i)
      std::memcpy(
          out.data() + order[i] * unit, stored.data() + (places[order[i]] - low) * unit, unit);
  }
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
