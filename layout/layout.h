#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

// How all trainable weights of a network lie in ONE flat float32 vector: in files (PyTorch's
// contiguous order, no gaps) and in memory (64-byte aligned segments, 4-D ones maybe
// channels_last).
namespace dimred::layout {

enum class MemoryFormat { contiguous, channels_last };
enum class Placement { replicated, sharded };

/// What the model says of one parameter, in registration order.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  MemoryFormat memory_format = MemoryFormat::contiguous;
  Placement placement = Placement::replicated;
  bool decay = true;  // weight decay applies (not to BatchNorm and bias)
};

struct Entry : Parameter {
  std::int64_t size = 0;           // elements
  std::int64_t file_offset = 0;    // elements from the start of the file vector [M]
  std::int64_t memory_offset = 0;  // elements from the start of the memory vector, multiple of 16
};

struct Layout {
  std::vector<Entry> entries;
  std::int64_t file_size = 0;    // M
  std::int64_t memory_size = 0;  // >= M: segments are padded to 16 elements
  std::string hash;  // XXH3-128 hex of (name, shape, file_offset) in order; what files carry
};

/// Lays parameters out in order. Throws std::invalid_argument for an empty list, a repeated or
/// empty name, a negative extent, a size that overflows, or channels_last on a shape that is not
/// 4-D.
Layout make_layout(const std::vector<Parameter>& parameters);

/// Copies file order [M] to memory order [memory_size]; padding is set to 0. Cost: one pass.
void file_to_memory(const Layout& layout, std::span<const float> file, std::span<float> memory);

/// The inverse of file_to_memory.
void memory_to_file(const Layout& layout, std::span<const float> memory, std::span<float> file);

/// JSON text of the table ({"hash", "parameters": [{"name", "shape", "offset"}]}) as files carry
/// it.
std::string to_json(const Layout& layout);

/// Names the first entries that differ, for "snapshots of another model" errors; empty when equal.
std::string first_difference(const Layout& expected, const std::string& received_json);

}  // namespace dimred::layout
