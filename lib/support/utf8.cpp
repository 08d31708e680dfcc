#include "support/utf8.h"

#include <algorithm>
#include <array>

namespace dimred {
namespace {

/// The Unicode standard's table 3-7: sequences by their first byte. Overlong forms, surrogates and
/// code points above U+10FFFF are told by the second one.
struct Utf8Row {
  unsigned char first, last;
  unsigned char least_second, most_second;
  std::size_t length;
};
constexpr std::array<Utf8Row, 8> utf8_rows{{{0xC2, 0xDF, 0x80, 0xBF, 2},
                                            {0xE0, 0xE0, 0xA0, 0xBF, 3},
                                            {0xE1, 0xEC, 0x80, 0xBF, 3},
                                            {0xED, 0xED, 0x80, 0x9F, 3},
                                            {0xEE, 0xEF, 0x80, 0xBF, 3},
                                            {0xF0, 0xF0, 0x90, 0xBF, 4},
                                            {0xF1, 0xF3, 0x80, 0xBF, 4},
                                            {0xF4, 0xF4, 0x80, 0x8F, 4}}};

/// Bytes of the UTF-8 sequence that `text` begins with; 0 when it is malformed.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const auto* const row = std::ranges::find_if(
      utf8_rows, [&](const Utf8Row& r) { return byte(0) >= r.first && byte(0) <= r.last; });
  if (row == utf8_rows.end() || text.size() < row->length) return 0;
  if (byte(1) < row->least_second || byte(1) > row->most_second) return 0;
  for (std::size_t i = 2; i < row->length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return row->length;
}

/// The code point of a well-formed UTF-8 sequence.
unsigned code_point(std::string_view character) {
  const auto bits = [&](std::size_t i) { return static_cast<unsigned char>(character[i]) & 0x3FU; };
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  if (character.size() == 2) return (first & 0x1FU) << 6 | bits(1);
  if (character.size() == 3) return (first & 0x0FU) << 12 | bits(1) << 6 | bits(2);
  return (first & 0x07U) << 18 | bits(1) << 12 | bits(2) << 6 | bits(3);
}

constexpr unsigned stray_byte = 0x110000;  // plus a byte that is not part of UTF-8

void append_code_point(std::string& text, unsigned code) {
  const auto put = [&](unsigned byte) { text += static_cast<char>(byte); };
  if (code >= stray_byte) return put(code - stray_byte);
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

constexpr std::string_view hex = "0123456789ABCDEF";

/// Characters that a terminal obeys instead of showing them: control characters, the eight-bit ones
/// too, line separators, and marks that turn the direction of the text.
bool is_obeyed(std::string_view character) {
  const auto code = code_point(character);
  return is_control(code) || (code >= 0x80 && code <= 0x9F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

/// Characters that are `hidden` as \uNNNN, bytes that are no UTF-8 as \xNN; "..." stands for what
/// goes beyond `longest` bytes.
template <class Hidden>
std::string escaped(std::string_view text, const Hidden& hidden, std::size_t longest = -1) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= longest) return out + "...";
    const auto length = utf8_length(text);
    const auto character = text.substr(0, std::max<std::size_t>(length, 1));
    text.remove_prefix(character.size());
    if (length == 0) {
      const auto byte = static_cast<unsigned char>(character[0]);
      out += {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
    } else if (hidden(character)) {
      out += escape_of(code_point(character));
    } else {
      out += character;
    }
  }
  return out;
}

}  // namespace

std::wstring code_points(std::string_view text) {
  static_assert(sizeof(wchar_t) == 4, "a code point needs 21 bits");
  std::wstring points;
  points.reserve(text.size());
  while (!text.empty()) {
    const auto length = utf8_length(text);
    const auto code = length == 0 ? stray_byte + static_cast<unsigned char>(text[0])
                                  : code_point(text.substr(0, length));
    points += static_cast<wchar_t>(code);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return points;
}

std::string text_of_code_points(std::wstring_view points) {
  std::string text;
  for (const auto point : points) append_code_point(text, static_cast<unsigned>(point));
  return text;
}

bool is_control(unsigned code) { return code < 0x20 || code == 0x7F; }

std::string escape_of(unsigned code) {
  if (code == '\n') return "\\n";
  if (code == '\t') return "\\t";
  return {'\\', 'u', hex[code >> 12], hex[code >> 8 & 15], hex[code >> 4 & 15], hex[code & 15]};
}

std::string utf8_text(std::string_view text) {
  return escaped(text, [](std::string_view) { return false; });
}

std::string terminal_text(std::string_view text, std::string_view kept, std::size_t longest) {
  const auto hidden = [kept](std::string_view character) {
    return is_obeyed(character) && kept.find(character) == kept.npos;
  };
  return escaped(text, hidden, longest);
}

}  // namespace dimred
