#include "pca/shard_target.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "checkpoints/float_formats.h"
#include "checkpoints/weight_names.h"
#include "support/text.h"

namespace dimred::pca {

std::optional<layout::Layout> at_file_offsets(const layout::Layout& network,
                                              const layout::Layout& file) {
  if (network.entries.size() != file.entries.size()) return std::nullopt;
  const auto names = texts_of(file.entries, &layout::Entry::name);
  const auto wanted = texts_of(network.entries, &layout::Entry::name);
  const auto prefix = checkpoints::prefix_to_drop(names, {wanted.begin(), wanted.end()});
  std::map<std::string_view, const layout::Entry*> in_file;
  for (const auto& entry : file.entries)
    in_file.emplace(std::string_view(entry.name).substr(prefix.size()), &entry);
  auto moved = network;
  for (auto& entry : moved.entries) {
    const auto found = in_file.find(entry.name);
    if (found == in_file.end() || found->second->shape != entry.global_shape()) return std::nullopt;
    entry.own_offset += found->second->global_offset - entry.global_offset;
    entry.global_offset = found->second->global_offset;
  }
  return moved;
}

ShardTarget::ShardTarget(const layout::Layout& layout, const layout::Shard& shard)
    : columns_(shard.memory_columns()) {
  std::int64_t start = 0;  // of the memory range within the shard
  for (const auto& range : shard.memory) {
    for (const auto& piece : layout::pieces_of(layout, {{range}})) {
      const auto& entry = layout.entries[piece.entry];
      Part part{{piece.file_begin, piece.file_begin + piece.size},
                start + piece.memory_begin - range.begin};
      if (entry.memory_format == layout::MemoryFormat::channels_last) {
        part.channels = entry.shape[1];
        part.pixels = entry.shape[2] * entry.shape[3];
      }
      parts_.push_back(part);
    }
    start += range.size();
  }
  std::ranges::sort(parts_, {}, [](const Part& part) { return part.file.begin; });
  for (const auto& part : parts_) {
    if (needed_.empty() || needed_.back().end != part.file.begin) needed_.push_back(part.file);
    needed_.back().end = part.file.end;
  }
}

void ShardTarget::scatter(std::int64_t begin,
                          std::span<const float> values,
                          std::span<float> memory) const {
  scatter_as(begin, values, memory);
}

void ShardTarget::scatter(std::int64_t begin,
                          std::span<const float> values,
                          std::span<std::uint16_t> memory) const {
  scatter_as(begin, values, memory);
}

template <class Value>
void ShardTarget::scatter_as(std::int64_t begin,
                             std::span<const float> values,
                             std::span<Value> memory) const {
  const auto end = begin + std::ssize(values);
  auto part = std::ranges::upper_bound(parts_, begin, {}, [](const Part& p) { return p.file.end; });
  for (; part != parts_.end() && part->file.begin < end; ++part) {
    const auto first = std::max(begin, part->file.begin) - part->file.begin;
    const auto last = std::min(end, part->file.end) - part->file.begin;
    const float* from = values.data() + part->file.begin - begin;
    Value* to = memory.data() + part->target;
    if (part->channels == 1 || part->pixels == 1) {
      std::transform(from + first, from + last, to + first, checkpoints::stored<Value>);
      continue;
    }
    const auto plane = part->channels * part->pixels;
    for (std::int64_t i = first; i < last; ++i) {
      const auto c = i % plane / part->pixels;
      to[i / plane * plane + i % part->pixels * part->channels + c] =
          checkpoints::stored<Value>(from[i]);
    }
  }
}

}  // namespace dimred::pca
