#include "layout/layout.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <utility>

#include "support/ceiling.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::layout {
namespace {

static_assert(std::endian::native == std::endian::little, "files and hashes are little-endian");

constexpr std::int64_t alignment = 16;  // floats: 64 bytes
// Byte counts of up to two such vectors still fit a 64-bit integer.
constexpr std::int64_t largest_size = std::numeric_limits<std::int64_t>::max() / 16;

std::int64_t elements_of(const std::string& name, const std::vector<std::int64_t>& shape) {
  std::int64_t size = 1;
  for (std::int64_t extent : shape) {
    require(extent >= 0, "[layout] '{}' needs dimensions >= 0, received {}", name, extent);
    require(!__builtin_mul_overflow(size, extent, &size) && size <= largest_size,
            "[layout] '{}' has too many elements for a 64-bit byte count",
            name);
  }
  return size;
}

/// A sharded parameter's rows lie within the whole's; whatever follows it is sharded, too.
void check_placement(const Layout& layout, const Parameter& parameter) {
  if (parameter.placement == Placement::replicated) {
    require(
        !layout.sharded(),
        "[layout] sharded parameters need to come last, received '{}' after a sharded parameter",
        parameter.name);
    return;
  }
  const auto rows = parameter.shape.empty() ? -1 : parameter.shape.front();
  require(
      rows >= 0 && parameter.first_row >= 0 && parameter.global_rows - rows >= parameter.first_row,
      "[layout] a rank's rows of '{}' must lie within the {} rows of all ranks, received {} rows "
      "from row {} on",
      parameter.name,
      parameter.global_rows,
      rows,
      parameter.first_row);
}

void append_number(std::string& text, std::int64_t number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// Digest of, for each entry: length of the name, name, rank, extents, offset in files;
/// int64, little-endian.
std::string hash_of(const std::vector<Entry>& entries) {
  std::string text;
  for (const auto& entry : entries) {
    const auto shape = entry.global_shape();
    append_number(text, std::ssize(entry.name));
    text += entry.name;
    append_number(text, std::ssize(shape));
    for (std::int64_t extent : shape) append_number(text, extent);
    append_number(text, entry.global_offset);
  }
  return digest(text);
}

/// Calls visit(file index, memory index, length) for every run of elements contiguous in both
/// orders. channels_last [O, C, H, W]: file ((o C + c) HW + p), memory ((o HW + p) C + c).
template <class Visit>
void for_each_run(const Entry& entry, Visit visit) {
  if (entry.memory_format == MemoryFormat::contiguous) {
    visit(entry.file_offset, entry.memory_offset, entry.size);
    return;
  }
  const auto channels = entry.shape[1];
  const auto pixels = entry.shape[2] * entry.shape[3];
  for (std::int64_t o = 0; o < entry.shape[0]; ++o) {
    const auto begin = o * channels * pixels;
    for (std::int64_t p = 0; p < pixels; ++p) {
      for (std::int64_t c = 0; c < channels; ++c) {
        visit(entry.file_offset + begin + c * pixels + p,
              entry.memory_offset + begin + p * channels + c,
              1);
      }
    }
  }
}

void check_sizes(const Layout& layout, std::size_t file, std::size_t memory) {
  require(std::cmp_equal(file, layout.file_size) && std::cmp_equal(memory, layout.memory_size),
          "[layout] needs {} elements in the file and {} in memory, received {} and {}",
          layout.file_size,
          layout.memory_size,
          file,
          memory);
}

}  // namespace

std::vector<std::int64_t> Parameter::global_shape() const {
  auto whole = shape;
  if (placement == Placement::sharded) whole.front() = global_rows;
  return whole;
}

Layout make_layout(const std::vector<Parameter>& parameters) {
  require(!parameters.empty(), "[layout] needs at least one parameter, received none");
  Layout layout;
  std::set<std::string> names;
  for (const auto& parameter : parameters) {
    require(!parameter.name.empty(), "[layout] needs a name for every parameter, received ''");
    require(names.insert(parameter.name).second,
            "[layout] needs different names, received '{}' twice",
            parameter.name);
    require(parameter.memory_format == MemoryFormat::contiguous || parameter.shape.size() == 4,
            "[layout] '{}' needs 4 dimensions for channels_last, received {}",
            parameter.name,
            parameter.shape.size());
    check_placement(layout, parameter);
    const auto whole = parameter.global_shape();
    const auto global_size = elements_of(parameter.name, whole);
    const auto size = elements_of(parameter.name, parameter.shape);
    require(layout.global_size <= largest_size - global_size - alignment &&
                layout.memory_size <= largest_size - size - alignment,
            "[layout] '{}' makes the vector too long for a 64-bit byte count",
            parameter.name);
    const bool sharded = parameter.placement == Placement::sharded;
    const auto skipped =
        sharded && whole.front() > 0 ? global_size / whole.front() * parameter.first_row : 0;
    layout.entries.push_back({parameter,
                              size,
                              layout.file_size,
                              global_size,
                              layout.global_size,
                              layout.global_size + skipped,
                              layout.memory_size});
    layout.file_size += size;
    layout.global_size += global_size;
    layout.memory_size += ceiling(size, alignment) * alignment;
    if (!sharded) layout.replicated_size = layout.memory_size;
  }
  layout.hash = hash_of(layout.entries);
  return layout;
}

void file_to_memory(const Layout& layout, std::span<const float> file, std::span<float> memory) {
  check_sizes(layout, file.size(), memory.size());
  for (const auto& entry : layout.entries) {
    for_each_run(entry, [&](std::int64_t from, std::int64_t to, std::int64_t length) {
      std::copy_n(file.data() + from, length, memory.data() + to);
    });
    const auto end = entry.memory_offset + entry.size;
    std::fill_n(memory.data() + end, -end & (alignment - 1), 0.0F);
  }
}

void memory_to_file(const Layout& layout, std::span<const float> memory, std::span<float> file) {
  check_sizes(layout, file.size(), memory.size());
  for (const auto& entry : layout.entries) {
    for_each_run(entry, [&](std::int64_t to, std::int64_t from, std::int64_t length) {
      std::copy_n(memory.data() + from, length, file.data() + to);
    });
  }
}

DigestStream frozen_digest(const Layout& layout) {
  DigestStream stream;
  stream.update(layout.hash);
  return stream;
}

}  // namespace dimred::layout
