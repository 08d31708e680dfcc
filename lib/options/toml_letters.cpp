#include "options/toml_letters.h"

#include <initializer_list>

namespace dimred {
namespace {

// In UTF-8 a letter of plane 13 is F3, 90 + 4 bits, 80 + 6 bits, 80 + 6 bits.
constexpr unsigned lead = 0xF3, second_lead = 0x90;

unsigned byte_of(char letter) { return static_cast<unsigned char>(letter); }

bool begins_plane_13(std::string_view text) {
  return text.size() >= 4 && byte_of(text[0]) == lead && (byte_of(text[1]) & 0xF0U) == second_lead;
}

void append(std::string& text, std::initializer_list<unsigned> bytes) {
  for (const auto byte : bytes) text += static_cast<char>(byte);
}

}  // namespace

std::string to_plane_13(std::string_view text) {
  std::string moved;
  for (const char letter : text) {
    const auto byte = byte_of(letter);
    if (byte >= 0xC0 && byte < 0xE0)
      append(moved, {lead, second_lead, 0x80 | (byte & 0x1F)});
    else if (byte >= 0xE0 && byte < 0xF0)
      append(moved, {lead, second_lead | (byte & 0x0F)});
    else
      moved += letter;
  }
  return moved;
}

std::string from_plane_13(std::string_view moved) {
  std::string text;
  while (!moved.empty()) {
    if (!begins_plane_13(moved)) {
      text += moved[0];
      moved.remove_prefix(1);
      continue;
    }
    const auto second = byte_of(moved[1]), third = byte_of(moved[2]);
    if (second == second_lead && third < 0xA0)
      append(text, {0xC0 | (third & 0x1F)});
    else
      append(text, {0xE0 | (second & 0x0F), third});
    text += moved[3];
    moved.remove_prefix(4);
  }
  return text;
}

bool holds_plane_13(std::string_view text) {
  for (; !text.empty(); text.remove_prefix(1)) {
    if (begins_plane_13(text)) return true;
  }
  return false;
}

bool escapes_plane_13(std::string_view toml) {
  while (!toml.empty()) {
    if (toml.starts_with("\\U000D") || toml.starts_with("\\U000d")) return true;
    toml.remove_prefix(toml.starts_with("\\\\") ? 2 : 1);
  }
  return false;
}

}  // namespace dimred
