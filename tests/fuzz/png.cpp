#include "data/decode.h"
#include "tests/fuzz/fuzz.h"

// Header, the whole image, and a reduced part of it.
std::vector<std::string> dimred::fuzz::seeds() { return {small_png()}; }

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dimred;
  const data::Sample sample{.encoding = data::Encoding::png, .bytes = {data, size}};
  fuzz::bear_errors([&] {
    const auto shape = data::encoded_shape(sample);
    if (shape.height * shape.width > 1 << 20) return;  // sound, and too slow for a fuzzer
    data::decoded(sample, 3);
    data::Image image;
    data::decode(sample,
                 {shape.height / 3, shape.width / 4, (shape.height + 1) / 2, (shape.width + 1) / 2},
                 {shape.height / 8, shape.width / 8},
                 1,
                 image);
  });
  return 0;
}
