#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoints/weight_names.h"

namespace dimred::checkpoints {

/// A box of a tensor in a file. Its element (i_1, ..., i_d), i_j < count_j, is number begin + sum
/// i_j step_j of the tensor, in the order of the tensor's shape, and number sum i_j stored_j behind
/// the file's byte `offset`. One dimension with steps of one describes a whole tensor, or a run of
/// its elements.
struct StoredBox {
  struct Dimension {
    std::int64_t count = 0;
    std::int64_t step = 1;    // in elements of the tensor; larger than the distance
                              // between the first and last element of the later dimensions
    std::int64_t stored = 1;  // in elements of the file
    auto operator<=>(const Dimension&) const = default;
  };
  std::int64_t begin = 0;
  std::vector<Dimension> dimensions;
  std::int64_t offset = 0;  // bytes from the start of the file
  std::size_t file = 0;     // behind the table's own, where a tensor lies in several
  auto operator<=>(const StoredBox&) const = default;
};

/// Elements [begin, begin + count) of a tensor, one behind the other in the file.
inline StoredBox run_of(std::int64_t begin, std::int64_t count, std::int64_t offset) {
  return {.begin = begin, .dimensions = {{.count = count}}, .offset = offset};
}

/// The box of `sizes` elements from `first` on in a tensor of `shape`. `stride`: in elements of the
/// file; empty: they lie in the order of `sizes`.
StoredBox box_of(const std::vector<std::int64_t>& shape,
                 const std::vector<std::int64_t>& first,
                 const std::vector<std::int64_t>& sizes,
                 const std::vector<std::int64_t>& stride);

/// The place of a tensor in its weight file, so that its elements are read when they are
/// needed.
struct StoredTensor {
  std::string name;
  std::string dtype;  // as safetensors names it; read_floats takes those of is_float_type
  std::vector<std::int64_t> shape;
  std::vector<StoredBox> boxes;  // each element lies in one of them; none of what lies beside
  Role role = Role::weight;
  bool shared = false;  // of a frozen part: the same for all snapshots of a run

  /// The product of the shape, which every reader has checked.
  std::int64_t elements() const;
  /// Bytes of all elements.
  std::int64_t bytes() const;
  /// Bytes of an element; one, where an element has fewer bits.
  std::int64_t unit() const;
};

/// Gives the tensors of a checkpoint their roles, which the names of all of them say.
void decide_roles(std::span<StoredTensor> tensors);

/// Gives the tensors of a snapshot or a state their roles: none of them is training state.
void decide_roles_without_state(std::span<StoredTensor> tensors);

/// Reads bytes [offset, offset + out.size()) of a box's file.
using ReadFile =
    std::function<void(std::size_t file, std::int64_t offset, std::span<std::byte> out)>;

/// out.size() bytes of the tensor that `boxes` make up, as a file in the shape's order would have
/// them, from element `first` on; `unit`: bytes of an element (one, where an element has fewer
/// bits, which one run must hold then). The elements of a box are read at once; in a file of
/// another order, elements within 64 bytes of one another are. Memory: up to out.size().
void read_stored(const ReadFile& read,
                 std::span<const StoredBox> boxes,
                 std::int64_t unit,
                 std::int64_t first,
                 std::span<std::byte> out);

}  // namespace dimred::checkpoints
