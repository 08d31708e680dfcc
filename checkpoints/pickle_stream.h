#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

#include "support/errors.h"

// What a pickle's bytes hold: opcodes and their arguments. Of checkpoints/pickle.cpp.
namespace dimred::checkpoints {

/// Of those that values and a state dict need, whatever the protocol (2 to 5), Python 2's texts
/// too.
enum class Op : std::uint8_t {
  mark = '(',
  stop = '.',
  pop = '0',
  float_number = 'G',
  int4 = 'J',
  int1 = 'K',
  int2 = 'M',
  none = 'N',
  persistent = 'Q',
  reduce = 'R',
  string4 = 'T',
  text1 = 'U',
  text4 = 'X',
  append = 'a',
  build = 'b',
  global = 'c',
  bytes1 = 'C',
  bytes4 = 'B',
  appends = 'e',
  get1 = 'h',
  get4 = 'j',
  put1 = 'q',
  put4 = 'r',
  set = 's',
  tuple = 't',
  sets = 'u',
  empty_list = ']',
  empty_tuple = ')',
  empty_dictionary = '}',
  protocol = 0x80,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  yes = 0x88,
  no = 0x89,
  long1 = 0x8a,
  unicode1 = 0x8c,
  unicode8 = 0x8d,
  bytes8 = 0x8e,
  stack_global = 0x93,
  memoize = 0x94,
  frame = 0x95
};

class PickleStream {
 public:
  explicit PickleStream(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  Op next() {
    start_ = at_;
    return static_cast<Op>(number<std::uint8_t>());
  }

  /// Throws with the place of the opcode under way.
  template <class... Parts>
  void rule(bool holds, const Parts&... parts) const {
    if (!holds) throw std::runtime_error(concat(parts..., " at byte ", start_));
  }

  std::span<const std::uint8_t> take(std::uint64_t size) {
    rule(size <= bytes_.size() - at_, "is cut off: ", size, " more bytes are needed");
    const auto part = bytes_.subspan(at_, size);
    at_ += size;
    return part;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text(std::uint64_t size) {
    const auto part = take(size);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::string line() {
    const auto rest = bytes_.subspan(at_);
    const auto end = std::ranges::find(rest, std::uint8_t{'\n'});
    rule(end != rest.end(), "is cut off within a name");
    auto name = text(static_cast<std::uint64_t>(end - rest.begin()));
    ++at_;
    return name;
  }
  /// Little-endian, signed, of as many bytes as the first one says.
  std::int64_t long_integer() {
    const auto digits = take(number<std::uint8_t>());
    rule(digits.size() <= 8, "needs integers of at most 8 bytes, received ", digits.size());
    std::uint64_t value = !digits.empty() && digits.back() >= 0x80 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = digits.size(); i-- > 0;) value = value << 8 | digits[i];
    return static_cast<std::int64_t>(value);
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0, start_ = 0;
};

}  // namespace dimred::checkpoints
