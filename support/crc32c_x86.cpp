#include <nmmintrin.h>

#include <array>
#include <cstring>

#include "support/crc32c_instruction.h"

namespace dimred {
namespace {

constexpr std::uint32_t reflected_polynomial = 0x82F63B78;
constexpr std::size_t stream_bytes = 1024;
using ShiftTables = std::array<std::array<std::uint32_t, 256>, 4>;

/// tables[k][b]: the register (b << 8k) after stream_bytes zero bytes. The shift is linear, so that
/// of a byte is the sum of those of its bits.
constexpr ShiftTables make_shift_tables() {
  ShiftTables tables{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t value = std::uint32_t{1} << bit;
    for (std::size_t step = 0; step < 8 * stream_bytes; ++step)
      value = (value >> 1) ^ ((value & 1) != 0 ? reflected_polynomial : 0);
    auto& table = tables[bit / 8];
    const std::size_t mask = std::size_t{1} << bit % 8;
    for (std::size_t byte = 0; byte < 256; ++byte)
      if ((byte & mask) != 0) table[byte] ^= value;
  }
  return tables;
}

// Not constexpr: 260,000 steps are much for a compiler and nothing for a processor.
const ShiftTables& shift_tables() {
  static const ShiftTables tables = make_shift_tables();
  return tables;
}

std::uint32_t shifted(const ShiftTables& tables, std::uint32_t value) {
  return tables[0][value & 0xFF] ^ tables[1][value >> 8 & 0xFF] ^ tables[2][value >> 16 & 0xFF] ^
         tables[3][value >> 24];
}

std::uint64_t word_at(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

}  // namespace

bool has_crc32c_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }

__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(
    std::uint32_t value, std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  const auto& tables = shift_tables();
  for (; left >= 3 * stream_bytes; left -= 3 * stream_bytes, at += 3 * stream_bytes) {
    std::uint64_t first = value, second = 0, third = 0;
    for (std::size_t i = 0; i < stream_bytes; i += sizeof(std::uint64_t)) {
      first = _mm_crc32_u64(first, word_at(at + i));
      second = _mm_crc32_u64(second, word_at(at + stream_bytes + i));
      third = _mm_crc32_u64(third, word_at(at + 2 * stream_bytes + i));
    }
    value = shifted(tables, static_cast<std::uint32_t>(first)) ^ static_cast<std::uint32_t>(second);
    value = shifted(tables, value) ^ static_cast<std::uint32_t>(third);
  }
  for (; left >= sizeof(std::uint64_t); left -= 8, at += 8)
    value = static_cast<std::uint32_t>(_mm_crc32_u64(value, word_at(at)));
  for (; left > 0; --left, ++at) value = _mm_crc32_u8(value, std::to_integer<std::uint8_t>(*at));
  return value;
}

}  // namespace dimred
