#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// The processor's own CRC-32C, chosen by CMake: crc32c_x86.cpp (SSE 4.2) or crc32c_none.cpp.
namespace dimred {

/// Whether this processor has it.
bool has_crc32c_instruction();

/// The checksum register after `bytes`, beginning with `value`; has_crc32c_instruction() holds.
/// Three streams at once hide the instruction's latency: about 20 GB/s.
std::uint32_t crc32c_by_instruction(std::uint32_t value, std::span<const std::byte> bytes);

}  // namespace dimred
