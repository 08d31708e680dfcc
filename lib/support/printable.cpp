#include "support/printable.h"

#include "support/url.h"
#include "support/utf8.h"

namespace dimred {

std::string printable(std::string_view text) {
  constexpr std::size_t longest = 100;
  return text.empty() ? "\"\"" : terminal_text(without_credentials(text), /*kept=*/{}, longest);
}

}  // namespace dimred
