#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "options/options.h"

// Sizes of files as people write them: powers of ten, as the file sizes of Hugging Face are.
namespace dimred {

struct ByteSize {
  std::int64_t bytes = 0;
};

/// Reads "20KB", "1.5 GB", "800B", "2TB", in either case; a bare number is GB. Rounded up to whole
/// bytes. Throws std::invalid_argument whose text is the rule alone.
ByteSize parse_byte_size(std::string_view text);

/// Returns a text that parse_byte_size() reads back: "5GB", "20KB", "1234B", "0".
std::string byte_size_text(ByteSize size);

/// The row of a size.
Option option_row(ByteSize* field);

}  // namespace dimred
