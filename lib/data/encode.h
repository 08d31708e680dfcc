#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "data/dataset.h"

namespace dimred::data {

/// `pixels` (height x width x channels, interleaved; channels 1 or 3) as a PNG file, or as a
/// baseline JPEG file of `quality` in [1, 100] (colour at half resolution, 4:2:0, from quality 90
/// on 4:4:4). Throws std::invalid_argument for other sizes, std::runtime_error when the library
/// fails.
std::string to_png(Bytes pixels, const ImageShape& shape);
std::string to_jpeg(Bytes pixels, const ImageShape& shape, int quality);

/// channels x height x width from height x width x channels.
void to_planes(Bytes interleaved, const ImageShape& shape, std::uint8_t* planes);

/// A PNG file with a text chunk behind its header: `keyword` (Latin-1, 1 to 79 bytes) and `text`.
std::string with_png_text(std::string png, std::string_view keyword, std::string_view text);

/// A sample as a file: JPEG and PNG as they are, planes as PNG.
std::string to_file(const Sample& sample);

}  // namespace dimred::data
