#include <nmmintrin.h>

#include <array>
#include <cstring>

#include "support/crc32c_instruction.h"

namespace dimred {
namespace {

using ShiftTables = std::array<std::array<std::uint32_t, 256>, 4>;

/// tables[k][b]: the register (b << 8k) after `bytes` zero bytes, a multiple of 8. The shift is
/// linear, so that of a byte is the sum of those of its bits.
__attribute__((target("sse4.2"))) ShiftTables make_shift_tables(std::size_t bytes) {
  ShiftTables tables{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint64_t value = std::uint64_t{1} << bit;
    for (std::size_t i = 0; i < bytes; i += 8) value = _mm_crc32_u64(value, 0);
    auto& table = tables[bit / 8];
    const std::size_t mask = std::size_t{1} << bit % 8;
    for (std::size_t byte = 0; byte < 256; ++byte)
      if ((byte & mask) != 0) table[byte] ^= static_cast<std::uint32_t>(value);
  }
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

/// Takes whole triples of streams from the front of `bytes`. The instruction needs three cycles and
/// one may start in each: three streams at once.
template <std::size_t stream_bytes>
__attribute__((target("sse4.2"))) std::uint32_t take_triples(std::uint32_t value,
                                                             std::span<const std::byte>& bytes) {
  static const ShiftTables tables = make_shift_tables(stream_bytes);
  for (; bytes.size() >= 3 * stream_bytes; bytes = bytes.subspan(3 * stream_bytes)) {
    const std::byte* at = bytes.data();
    std::uint64_t first = value, second = 0, third = 0;
    for (std::size_t i = 0; i < stream_bytes; i += sizeof(std::uint64_t)) {
      first = _mm_crc32_u64(first, word_at(at + i));
      second = _mm_crc32_u64(second, word_at(at + stream_bytes + i));
      third = _mm_crc32_u64(third, word_at(at + 2 * stream_bytes + i));
    }
    value = shifted(tables, static_cast<std::uint32_t>(first)) ^ static_cast<std::uint32_t>(second);
    value = shifted(tables, value) ^ static_cast<std::uint32_t>(third);
  }
  return value;
}

}  // namespace

bool has_crc32c_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }

__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(
    std::uint32_t value, std::span<const std::byte> bytes) {
  // Long streams run at the memory's rate, which prefetches them; a page is too short for that.
  value = take_triples<8192>(value, bytes);
  value = take_triples<512>(value, bytes);
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= sizeof(std::uint64_t); left -= 8, at += 8)
    value = static_cast<std::uint32_t>(_mm_crc32_u64(value, word_at(at)));
  for (; left > 0; --left, ++at) value = _mm_crc32_u8(value, std::to_integer<std::uint8_t>(*at));
  return value;
}

}  // namespace dimred
