#pragma once

#include <string>
#include <string_view>

namespace dimred {

// toml++ 3.3 and 3.4 have undefined behaviour for some letters of Unicode's basic plane where white
// space may stand (its issue 295). So it reads every letter between ASCII and U+FFFF as the one
// 0xD0000 beyond, in plane 13, where Unicode has none, and what it returns is moved back.

/// `text`, in UTF-8, with its letters of the basic plane moved.
std::string to_plane_13(std::string_view text);

/// `moved` with its letters of plane 13 moved back.
std::string from_plane_13(std::string_view moved);

/// Whether a text in UTF-8 holds a letter of plane 13 itself.
bool holds_plane_13(std::string_view text);

/// Whether a text of TOML holds \U000DNNNN, which is a letter of plane 13 too.
bool escapes_plane_13(std::string_view toml);

}  // namespace dimred
