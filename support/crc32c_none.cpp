#include "support/crc32c_instruction.h"
#include "support/errors.h"

namespace dimred {

bool has_crc32c_instruction() { return false; }

std::uint32_t crc32c_by_instruction(std::uint32_t /*value*/, std::span<const std::byte> /*bytes*/) {
  check(false, "no CRC-32C instruction on this processor");
  return 0;
}

}  // namespace dimred
