#include "data/base64.h"

#include <array>

#include "support/errors.h"

namespace dimred::data {
namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint32_t invalid = 0xFF000000;
using Tables = std::array<std::array<std::uint32_t, 256>, 4>;

/// tables[k][c]: the bits of character c at place k of four, lowest byte = first byte out.
constexpr Tables make_tables() {
  Tables tables{};
  for (auto& table : tables) table.fill(invalid);
  for (std::uint32_t value = 0; value < 64; ++value) {
    for (std::size_t k = 0; k < 4; ++k) {
      const std::uint32_t bits = value << (18 - 6 * k);
      tables[k][static_cast<unsigned char>(alphabet[value])] =
          (bits >> 16 & 0xFF) | (bits & 0xFF00) | (bits & 0xFF) << 16;
    }
  }
  return tables;
}

constexpr Tables tables = make_tables();

std::uint32_t four(const char* at) {
  const auto letter = [&](std::size_t i) { return static_cast<unsigned char>(at[i]); };
  return tables[0][letter(0)] | tables[1][letter(1)] | tables[2][letter(2)] | tables[3][letter(3)];
}

std::size_t padding_of(std::string_view text) {
  if (!text.ends_with('=')) return 0;
  return text.ends_with("==") ? 2 : 1;
}

Base64Fault first_fault(std::string_view text) {
  const auto at = text.find_first_not_of(alphabet);
  return {at == std::string_view::npos ? text.size() : at,
          "needs letters, digits, + and /, with = only as padding at its end"};
}

}  // namespace

std::string to_base64(Bytes bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '=');
  char* out = text.data();
  for (std::size_t i = 0; i < bytes.size(); i += 3, out += 4) {
    const std::size_t left = bytes.size() - i;
    const std::uint32_t bits = std::uint32_t{bytes[i]} << 16 |
                               (left > 1 ? std::uint32_t{bytes[i + 1]} << 8 : 0) |
                               (left > 2 ? std::uint32_t{bytes[i + 2]} : 0);
    out[0] = alphabet[bits >> 18];
    out[1] = alphabet[bits >> 12 & 63];
    if (left > 1) out[2] = alphabet[bits >> 6 & 63];
    if (left > 2) out[3] = alphabet[bits & 63];
  }
  return text;
}

std::size_t base64_size(std::string_view text) { return text.size() / 4 * 3 - padding_of(text); }

std::optional<Base64Fault> from_base64(std::string_view text, std::vector<std::uint8_t>& bytes) {
  if (text.size() % 4 != 0)
    return Base64Fault{text.size(),
                       formatted("needs a multiple of 4 characters, received {}", text.size())};
  bytes.resize(base64_size(text));
  if (text.empty()) return std::nullopt;
  std::uint32_t seen = 0;
  std::uint8_t* out = bytes.data();
  const char* last = text.data() + text.size() - 4;
  for (const char* at = text.data(); at != last; at += 4, out += 3) {
    const auto bits = four(at);
    seen |= bits;
    out[0] = bits;
    out[1] = bits >> 8;
    out[2] = bits >> 16;
  }
  // The last four: padding counts as zeros, and what it hides must be zero.
  const std::size_t padding = padding_of(text);
  std::array<char, 4> end = {
      last[0], last[1], padding > 1 ? 'A' : last[2], padding > 0 ? 'A' : last[3]};
  const auto bits = four(end.data());
  seen |= bits;
  if ((seen & invalid) != 0) return first_fault(text);
  const std::size_t kept = 3 - padding;
  for (std::size_t i = 0; i < kept; ++i) out[i] = bits >> 8 * i;
  if (kept < 3 && bits >> 8 * kept != 0)
    return Base64Fault{text.size() - padding - 1,
                       "needs zeros in the unused bits before the padding"};
  return std::nullopt;
}

}  // namespace dimred::data
