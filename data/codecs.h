#pragma once

#include <cstdint>
#include <span>

#include "data/decode.h"

// What decode.cpp takes from each format's file.
namespace dimred::data {

/// A file's header: the size of the stored pixels, and how to turn them (EXIF: 1 = as they are, 2
/// to 8 = one of the other symmetries of the rectangle).
struct EncodedHeader {
  ImageShape stored;
  int orientation = 1;
};

EncodedHeader jpeg_header(std::span<const std::uint8_t> bytes);
EncodedHeader png_header(std::span<const std::uint8_t> bytes);

/// `region` is of the stored pixels; fills all of `image`.
void decode_jpeg(std::span<const std::uint8_t> bytes,
                 const Region& region,
                 std::int64_t reduction,
                 int channels,
                 Image& image);
void decode_png(std::span<const std::uint8_t> bytes,
                const Region& region,
                int channels,
                Image& image);

/// EXIF's orientation tag in the payload of a JPEG's APP1 marker; 1 where there is none.
int exif_orientation(std::span<const std::uint8_t> payload);

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
