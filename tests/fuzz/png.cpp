#include "tests/fuzz/image.h"

std::vector<std::string> dimred::fuzz::seeds() { return {small_png()}; }

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dimred::fuzz::parse_image(dimred::data::Encoding::png, {data, size});
  return 0;
}
