#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dimred {
class DigestStream;
}

// How all trainable weights of a network lie in ONE flat float32 vector: in files (PyTorch's
// contiguous order, no gaps) and in memory (64-byte aligned segments, 4-D ones maybe
// channels_last).
namespace dimred::layout {

enum class MemoryFormat { contiguous, channels_last };
enum class Placement { replicated, sharded };  // every rank has all of it, or some of its rows

/// The model's description of one parameter, in registration order.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;  // of what this rank has
  MemoryFormat memory_format = MemoryFormat::contiguous;
  Placement placement = Placement::replicated;
  bool decay = true;  // weight decay applies (not to BatchNorm and bias)
  // For a sharded parameter, shape[0] is rows [first_row, first_row + shape[0]) of global_rows.
  std::int64_t global_rows = 0;
  std::int64_t first_row = 0;

  /// As files have it: of all ranks' rows.
  std::vector<std::int64_t> global_shape() const;
};

struct Entry : Parameter {
  std::int64_t size = 0;           // elements
  std::int64_t file_offset = 0;    // elements from the start of this rank's file vector
  std::int64_t global_size = 0;    // elements of all ranks
  std::int64_t global_offset = 0;  // of these in files [M]
  std::int64_t own_offset = 0;     // of this rank's first one in files [M]
  std::int64_t memory_offset = 0;  // elements from the start of the memory vector, multiple of 16
};

struct Layout {
  std::vector<Entry> entries;
  std::int64_t file_size = 0;    // this rank's elements; M where nothing is sharded
  std::int64_t global_size = 0;  // M: what files have, of all ranks
  std::int64_t memory_size = 0;  // >= file_size: segments are padded to 16 elements
  // Memory columns before the first sharded one: what all ranks have alike.
  std::int64_t replicated_size = 0;
  std::string hash;  // XXH3-128 hex of (name, whole shape, offset in files) in order

  bool sharded() const {
    return !entries.empty() && entries.back().placement == Placement::sharded;
  }
  /// Memory column behind entry `index`, its padding included.
  std::int64_t memory_end(std::size_t index) const {
    return index + 1 < entries.size() ? entries[index + 1].memory_offset : memory_size;
  }
};

/// Lays parameters out in order. Throws std::invalid_argument for an empty list, a repeated or
/// empty name, a negative extent, a size that overflows, channels_last on a shape that is not
/// 4-D, a sharded parameter whose rows are not in the whole's, or a replicated one behind it.
Layout make_layout(const std::vector<Parameter>& parameters);

/// Copies file order [file_size] to memory order [memory_size]; padding is set to 0. Cost: one
/// pass.
void file_to_memory(const Layout& layout, std::span<const float> file, std::span<float> memory);

/// The inverse of file_to_memory.
void memory_to_file(const Layout& layout, std::span<const float> memory, std::span<float> file);

/// The digest of a frozen part with this layout, begun: it goes on with the values, float32 in file
/// order, in as many parts as the caller likes. XXH3-128 of the layout's hash and of them.
DigestStream frozen_digest(const Layout& layout);

/// JSON text of the table ({"hash", "parameters": [{"name", "shape", "offset"}]}) as files carry
/// it.
std::string to_json(const Layout& layout);

/// The table of a layout from such a text (contiguous, in order). Throws std::runtime_error.
Layout layout_from_json(const std::string& text);

/// Names the first entries that differ, for "snapshots of another model" errors; empty when equal.
std::string first_difference(const Layout& expected, const std::string& received_json);

}  // namespace dimred::layout
