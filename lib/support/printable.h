#pragma once

#include <string>
#include <string_view>

namespace dimred {

/// A foreign text on one line of a message: what a terminal would obey is escaped, a URL's password
/// is left out, and what goes beyond 100 bytes is cut.
std::string printable(std::string_view text);

}  // namespace dimred
