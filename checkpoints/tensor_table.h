#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace dimred::checkpoints {

/// Where a tensor of a weight file lies in it, so that its elements are read when they are
/// needed.
struct StoredTensor {
  /// Elements that lie one behind the other.
  struct Piece {
    std::int64_t elements = 0;
    std::int64_t offset = 0;  // bytes from the start of the file
    std::size_t file = 0;     // behind the table's own, where a tensor lies in several
  };
  std::string name;
  std::string dtype;  // as safetensors names it; read_floats takes those of is_float_type
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t>
      stride;                 // in elements, where they lie in another order than the shape's
  std::vector<Piece> pieces;  // one, where there is a stride
};

/// The tensors of a file that read_weights takes, in its order, MindSpore's under the names that
/// PyTorch has; which of them are weights says choose_weights. The checksums of PyTorch's and
/// MindSpore's files are compared, which reads them once. Throws as read_weights, but for values.
std::vector<StoredTensor> read_tensor_table(const std::filesystem::path& path);

/// Reads bytes [offset, offset + out.size()) of a piece's file.
using ReadPiece =
    std::function<void(std::size_t file, std::int64_t offset, std::span<std::byte> out)>;

/// out.size() bytes of the tensor, as a file in the shape's order would have them, from element
/// `first` on; `unit`: bytes of an element (one, where an element has fewer bits). Where the
/// tensor has strides, elements that lie within 64 bytes of one another are read at once.
void read_stored(const ReadPiece& read,
                 const StoredTensor& tensor,
                 std::int64_t unit,
                 std::int64_t first,
                 std::span<std::byte> out);

}  // namespace dimred::checkpoints
