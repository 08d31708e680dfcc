#pragma once

#include "data/decode.h"
#include "tests/fuzz/fuzz.h"

namespace dimred::fuzz {

/// Header, the whole image, and a reduced part of it.
inline void parse_image(data::Encoding encoding, std::span<const std::uint8_t> bytes) {
  allow_memory(data::decode_memory(bytes.size()) + 16'000'000);  // of libjpeg's or libpng's rows
  const data::Sample sample{.encoding = encoding, .bytes = bytes};
  bear_errors([&] {
    const auto shape = data::encoded_shape(sample);
    data::decoded(sample, 3);
    data::Image image;
    data::decode(sample,
                 {shape.height / 3, shape.width / 4, (shape.height + 1) / 2, (shape.width + 1) / 2},
                 {shape.height / 8, shape.width / 8},
                 1,
                 image);
  });
}

}  // namespace dimred::fuzz
