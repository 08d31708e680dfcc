#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/bytes.h"

// Base64 of RFC 4648, section 4 (+ and /), in its one canonical form: a multiple of four
// characters, padded with =, unused bits zero, no white space within.
namespace dimred::data {

std::string to_base64(Bytes bytes);

/// Bytes that `text` stands for, from its length and padding alone; text.size() is a multiple of 4.
std::size_t base64_size(std::string_view text);

/// Why a text is not canonical Base64.
struct Base64Fault {
  std::size_t at = 0;  // character
  std::string rule;
};

/// Decodes into `bytes` (resized, its memory is reused); nullopt on success, otherwise the first
/// fault. Cost: about 1.5 GB of text a second.
std::optional<Base64Fault> from_base64(std::string_view text, std::vector<std::uint8_t>& bytes);

}  // namespace dimred::data
