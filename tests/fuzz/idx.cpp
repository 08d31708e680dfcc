#include "data/idx.h"

#include "tests/fuzz/fuzz.h"

// Images (three dimensions) or labels (one), by the first byte.
std::vector<std::string> dimred::fuzz::seeds() {
  return {std::string("\3\0\0\x08\3\0\0\0\2\0\0\0\2\0\0\0\1abcd", 21),
          std::string("\1\0\0\x08\1\0\0\0\3abc", 12)};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  fuzz::bear_errors([&] {
    const auto array = data::read_idx_array(fuzz::file_with({data + 1, size - 1}),
                                            data[0] % 2 == 1 && data[0] != 1 ? 3 : 1);
    if (array.size == 0) __builtin_trap();
  });
  return 0;
}
