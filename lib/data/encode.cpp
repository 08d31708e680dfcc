#include "data/encode.h"

#include "data/codecs.h"
#include "support/bytes.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

/// Rows to columns, of a matrix outer x inner.
void transpose(Bytes from, std::int64_t outer, std::int64_t inner, std::uint8_t* to) {
  for (std::int64_t j = 0; j < inner; ++j)
    for (std::int64_t i = 0; i < outer; ++i) *to++ = from[i * inner + j];
}

}  // namespace

void require_shape(Bytes pixels, const ImageShape& shape) {
  constexpr std::int64_t longest = 65500;  // JPEG's
  require((shape.channels == 1 || shape.channels == 3) && shape.height >= 1 && shape.width >= 1 &&
              shape.height <= longest && shape.width <= longest &&
              std::ssize(pixels) == shape.size(),
          "[data] needs 1 or 3 channels of at most {} x {} pixels, received {} channels of {} x {} "
          "pixels in {} bytes",
          longest,
          longest,
          shape.channels,
          shape.height,
          shape.width,
          pixels.size());
}

void to_planes(Bytes interleaved, const ImageShape& shape, std::uint8_t* planes) {
  transpose(interleaved, shape.height * shape.width, shape.channels, planes);
}

std::string to_file(const Sample& sample) {
  if (sample.encoding != Encoding::planes) return std::string(text_of(sample.bytes));
  const auto& shape = sample.shape;
  std::vector<std::uint8_t> pixels(sample.bytes.size());
  transpose(sample.bytes, shape.channels, shape.height * shape.width, pixels.data());
  return to_png(pixels, shape);
}

}  // namespace dimred::data
