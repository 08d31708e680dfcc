#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "support/errors.h"

// Little-endian numbers and counted texts in our own binary files (caches).
namespace dimred::data {

static_assert(std::endian::native == std::endian::little, "files are read as they lie in memory");

template <std::integral Integer>
void append_number(std::string& out, Integer value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

inline void append_text(std::string& out, std::string_view text) {
  append_number(out, static_cast<std::uint64_t>(text.size()));
  out += text;
}

/// Reads what the functions above have written; never beyond its bytes. Every function throws
/// std::runtime_error("[place] ends early at byte N") instead.
class ByteReader {
 public:
  ByteReader(std::span<const std::uint8_t> bytes, std::string_view place)
      : bytes_(bytes), place_(place) {}

  template <std::integral Integer>
  Integer number() {
    Integer value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  std::string text() {
    const auto part = take(number<std::uint64_t>());
    return {part.begin(), part.end()};
  }

  /// A count of things of at least `each` bytes, which the bytes left can hold.
  std::uint64_t count(std::uint64_t each) {
    const auto value = number<std::uint64_t>();
    require_environment(value <= left() / each, "[{}] ends early at byte {}", place_, at_);
    return value;
  }

  std::span<const std::uint8_t> take(std::uint64_t size) {
    require_environment(size <= left(), "[{}] ends early at byte {}", place_, at_);
    const auto part = bytes_.subspan(at_, size);
    at_ += size;
    return part;
  }

  std::uint64_t left() const { return bytes_.size() - at_; }

 private:
  std::span<const std::uint8_t> bytes_;
  std::string_view place_;
  std::size_t at_ = 0;
};

}  // namespace dimred::data
