#pragma once

#include <cstdint>
#include <span>
#include <string_view>

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

}  // namespace dimred
