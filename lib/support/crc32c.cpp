#include "support/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace dimred {
namespace {

constexpr std::uint32_t reflected_polynomial = 0x82F63B78;
constexpr std::size_t slices = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, slices>;

/// tables[s][b] is the checksum register after byte b and then s zero bytes.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    auto value = byte;
    for (int bit = 0; bit < 8; ++bit)
      value = (value >> 1) ^ ((value & 1) != 0 ? reflected_polynomial : 0);
    tables[0][byte] = value;
  }
  for (std::size_t slice = 1; slice < slices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const auto before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables tables = make_tables();

// The processor's own CRC-32C (SSE 4.2).
#if defined(__x86_64__)

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

/// Three streams at once hide the instruction's latency: about 20 GB/s.
__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(
    std::span<const std::byte> bytes) {
  // Long streams run at the memory's rate, which prefetches them; a page is too short for that.
  auto value = take_triples<8192>(0xFFFFFFFF, bytes);
  value = take_triples<512>(value, bytes);
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= sizeof(std::uint64_t); left -= 8, at += 8)
    value = static_cast<std::uint32_t>(_mm_crc32_u64(value, word_at(at)));
  for (; left > 0; --left, ++at) value = _mm_crc32_u8(value, std::to_integer<std::uint8_t>(*at));
  return value ^ 0xFFFFFFFF;
}

#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  static const bool by_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (by_instruction) return crc32c_by_instruction(bytes);
#endif
  return crc32c_by_tables(bytes);
}

std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes) {
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  std::uint32_t value = 0xFFFFFFFF;
  for (; bytes.size() >= slices; bytes = bytes.subspan(slices)) {
    value ^= at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
    value = tables[7][value & 0xFF] ^ tables[6][value >> 8 & 0xFF] ^ tables[5][value >> 16 & 0xFF] ^
            tables[4][value >> 24] ^ tables[3][at(4)] ^ tables[2][at(5)] ^ tables[1][at(6)] ^
            tables[0][at(7)];
  }
  for (std::size_t i = 0; i < bytes.size(); ++i)
    value = (value >> 8) ^ tables[0][(value ^ at(i)) & 0xFF];
  return value ^ 0xFFFFFFFF;
}

}  // namespace dimred
