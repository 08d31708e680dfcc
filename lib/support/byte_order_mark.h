#pragma once

#include <string_view>

namespace dimred {

/// The mark that editors of Windows put before a text in UTF-8.
inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// The text of a file in UTF-8 without the byte-order mark that it may begin with. Throws
/// std::runtime_error("source: ...") for the marks of UTF-16 and UTF-32.
std::string_view without_byte_order_mark(std::string_view text, std::string_view source);

}  // namespace dimred
