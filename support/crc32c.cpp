#include "support/crc32c.h"

#include <array>

#include "support/crc32c_instruction.h"

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

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  static const bool by_instruction = has_crc32c_instruction();
  if (by_instruction) return crc32c_by_instruction(0xFFFFFFFF, bytes) ^ 0xFFFFFFFF;
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
