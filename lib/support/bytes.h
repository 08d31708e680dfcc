#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>

namespace dimred {

/// Bytes that somebody else holds.
using Bytes = std::span<const std::uint8_t>;

/// The text's bytes as numbers, which stay the text's.
inline Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// The bytes as a text, which stay where they are.
inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The bytes of a text, or of the values of a vector, an array or a span; not of a literal, whose
/// end would count.
struct ByteView : std::span<const std::byte> {
  ByteView() = default;
  ByteView(const std::byte* first, std::size_t size) : span(first, size) {}
  template <std::ranges::contiguous_range Range>
  requires(!std::is_array_v<Range> &&
           std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>)
      ByteView(const Range& range)
      : span(std::as_bytes(std::span(range))) {}  // NOLINT: stands for it
};

/// Receives bytes part by part.
using ByteSink = std::function<void(std::span<const std::byte>)>;

}  // namespace dimred
