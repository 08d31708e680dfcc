#include "support/byte_order_mark.h"

#include "support/errors.h"

namespace dimred {

std::string_view without_byte_order_mark(std::string_view text, std::string_view source) {
  require_environment(
      !text.starts_with("\xFF\xFE") && !text.starts_with("\xFE\xFF"),
      "{}: needs a text in UTF-8, received a text in UTF-16; save the file as UTF-8",
      source);
  return text.starts_with(byte_order_mark) ? text.substr(byte_order_mark.size()) : text;
}

}  // namespace dimred
