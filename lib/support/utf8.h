#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Texts of other people as UTF-8 that a terminal shows and does not obey.
namespace dimred {

/// `text` with each byte that is not part of UTF-8 as \xNN, for files that must be UTF-8.
std::string utf8_text(std::string_view text);

/// Returns the code points of `text`. A byte that is not part of UTF-8 becomes 0x110000 plus its
/// value, which no code point has, so that text_of_code_points() returns the same bytes.
std::wstring code_points(std::string_view text);
std::string text_of_code_points(std::wstring_view points);

/// Whether the code point is an ASCII control character.
bool is_control(unsigned code);

/// A code point of the basic plane as \n, \t or \uNNNN.
std::string escape_of(unsigned code);

/// `text` with everything escaped, but what is `kept`, that a terminal would obey; "..." stands for
/// what goes beyond `longest` bytes. put_text() applies it to all that is printed; without line
/// ends, a name cannot pretend to be another line.
std::string terminal_text(std::string_view text,
                          std::string_view kept = "\n\t",
                          std::size_t longest = std::string_view::npos);

}  // namespace dimred
