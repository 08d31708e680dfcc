#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/bytes.h"
#include "support/errors.h"

// Little-endian numbers and counted texts in our own binary files (caches), and big-endian ones in
// those of others.
namespace dimred {

static_assert(std::endian::native == std::endian::little, "files are read as they lie in memory");

/// Types that are written as they lie in memory: numbers, and rows of them without gaps.
template <class Value>
concept Plain = std::has_unique_object_representations_v<Value>;

template <Plain Value>
void append(std::string& out, const Value& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Its length first.
inline void append(std::string& out, const std::string& text) {
  append(out, text.size());
  out += text;
}

/// How many, then one after another.
template <Plain Value>
void append(std::string& out, const std::vector<Value>& values) {
  append(out, values.size());
  for (const auto& value : values) append(out, value);
}

template <class... Values>
void append(std::string& out, const std::tuple<Values...>& values) {
  std::apply([&](const auto&... each) { (append(out, each), ...); }, values);
}

/// Reads what the functions above have written; never beyond its bytes. Every function throws
/// std::runtime_error("[scope] ends early at byte N") instead.
class ByteReader {
 public:
  ByteReader(Bytes bytes, std::string_view scope) : bytes_(bytes), scope_(scope) {}

  template <Plain Value>
  Value number() {
    Value value;
    read(value);
    return value;
  }

  template <Plain Value>
  void read(Value& value) {
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }

  void read(std::string& text) { text = text_of(take(number<std::uint64_t>())); }

  template <Plain Value>
  void read(std::vector<Value>& values) {
    values.resize(count(sizeof(Value)));
    for (auto& value : values) read(value);
  }

  template <class... Values>
  void read(std::tuple<Values&...> values) {
    std::apply([&](auto&... each) { (read(each), ...); }, values);
  }

  /// A count of things of at least `each` bytes, which the bytes left can hold.
  std::uint64_t count(std::uint64_t each) {
    const auto value = number<std::uint64_t>();
    require_left(value <= left() / each);
    return value;
  }

  Bytes take(std::uint64_t size) {
    require_left(size <= left());
    const auto part = bytes_.subspan(at_, size);
    at_ += size;
    return part;
  }

  std::uint64_t left() const { return bytes_.size() - at_; }

 private:
  void require_left(bool holds) const {
    require_environment(
        holds,
        "[{}] the data are incomplete: the value at byte {} needs more bytes than are left",
        scope_,
        at_);
  }

  Bytes bytes_;
  std::string_view scope_;
  std::size_t at_ = 0;
};

/// The number of `Size` bytes that stands at `at`.
template <std::size_t Size>
std::uint32_t big_endian(Bytes bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (const auto byte : bytes.subspan(at, Size)) value = value << 8 | byte;
  return value;
}

}  // namespace dimred
