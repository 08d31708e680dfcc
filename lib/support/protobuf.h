#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "support/errors.h"

// Protobuf's wire format: what a message is made of, without its schema.
// Source: protobuf.dev/programming-guides/encoding.
namespace dimred::protobuf {

enum class Wire : std::uint32_t { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };

struct Field {
  std::uint64_t number = 0;
  Wire wire = Wire::varint;
  std::uint64_t value = 0;                // of a varint
  std::span<const std::uint8_t> content;  // of a delimited one
};

/// The fields of one message, one after another. `origin` is the whole message's first byte, so
/// that errors can say where they are: std::runtime_error("[scope] rule, received ... at byte N").
class Fields {
 public:
  Fields(std::span<const std::uint8_t> message, const std::uint8_t* origin, std::string_view scope)
      : rest_(message), origin_(origin), scope_(scope) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const auto tag = varint();
    field.number = tag >> 3;
    field.wire = static_cast<Wire>(tag & 7);
    if (field.number < 1 || field.number >= (1U << 29))
      fail("needs field numbers in [1, 2^29), received {}", field.number);
    switch (field.wire) {
      case Wire::varint:
        field.value = varint();
        break;
      case Wire::fixed64:
        take(8);
        break;
      case Wire::delimited:
        field.content = take(varint());
        break;
      case Wire::fixed32:
        take(4);
        break;
      default:
        fail("needs wire type 0, 1, 2 or 5, received {}", tag & 7);
    }
    return true;
  }

  /// One number of a packed list.
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (rest_.empty())
        fail("needs a whole protobuf message, received data that end within a number");
      const std::uint64_t byte = rest_.front();
      rest_ = rest_.subspan(1);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail("needs numbers of at most 10 bytes, received a longer number");
  }

  bool empty() const { return rest_.empty(); }

 private:
  std::span<const std::uint8_t> take(std::uint64_t size) {
    if (size > rest_.size())
      fail("needs a whole protobuf message, received {} of {} bytes", rest_.size(), size);
    const auto part = rest_.first(size);
    rest_ = rest_.subspan(size);
    return part;
  }

  // No text is made unless it is needed: a message has dozens of numbers.
  template <class... Values>
  [[noreturn]] void fail(std::type_identity_t<FormatString<sizeof...(Values)>> rule,
                         const Values&... values) const {
    fail_environment(
        "[{}] {} at byte {}", scope_, formatted(rule, values...), rest_.data() - origin_);
  }

  std::span<const std::uint8_t> rest_;
  const std::uint8_t* origin_;
  std::string_view scope_;
};

}  // namespace dimred::protobuf
