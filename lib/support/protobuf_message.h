#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "support/protobuf.h"

namespace dimred::protobuf {

inline std::string varint(std::uint64_t number) {
  std::string text;
  for (; number >= 0x80; number >>= 7) text += static_cast<char>(number | 0x80);
  return text += static_cast<char>(number);
}

/// One message under construction, on a little-endian machine.
class Message {
 public:
  Message& integer(int field, std::uint64_t value) {
    key(field, Wire::varint);
    text_ += varint(value);
    return *this;
  }
  template <std::floating_point Number>
  Message& number(int field, Number value) {
    key(field, sizeof value == 8 ? Wire::fixed64 : Wire::fixed32);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Message& bytes(int field, std::string_view content) {
    key(field, Wire::delimited);
    text_ += varint(content.size());
    text_ += content;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void key(int field, Wire wire) { text_ += varint(field << 3 | static_cast<int>(wire)); }

  std::string text_;
};

}  // namespace dimred::protobuf
