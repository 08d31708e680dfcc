#pragma once

#include <cstdint>
#include <span>

#include "data/decode.h"
#include "support/bytes.h"

// The functions that decode.cpp takes from each format's file.
namespace dimred::data {

/// A file's header: the size of the stored pixels, and how to turn them (EXIF: 1 = as they are, 2
/// to 8 = one of the other symmetries of the rectangle).
struct EncodedHeader {
  ImageShape stored;
  int orientation = 1;
};

EncodedHeader jpeg_header(Bytes bytes);
EncodedHeader png_header(Bytes bytes);

/// `region` is of the stored pixels; fills all of `image`.
void decode_jpeg(
    Bytes bytes, const Region& region, std::int64_t reduction, int channels, Image& image);
void decode_png(Bytes bytes, const Region& region, int channels, Image& image);

/// Refuses what no file is written of.
void require_shape(Bytes pixels, const ImageShape& shape);

/// Refuses sizes above largest_image and largest_side, more than `pixels_a_byte` of them, and what
/// `copies` of would take more than decode_memory.
void require_plausible(const char* format,
                       const ImageShape& shape,
                       std::size_t bytes,
                       std::int64_t pixels_a_byte,
                       std::int64_t copies = 1);

/// Whether a file that ends at `row` of `height` is borne.
constexpr bool is_enough(std::int64_t row, std::int64_t height) { return 4 * row >= 3 * height; }

}  // namespace dimred::data
