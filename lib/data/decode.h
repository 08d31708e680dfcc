#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace dimred::data {

/// Pixels [top, top + height) x [left, left + width) of an image.
struct Region {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  bool operator==(const Region&) const = default;
};

struct Size {
  std::int64_t height = 0, width = 0;
  bool operator==(const Size&) const = default;
};

/// Decoded pixels, interleaved: height x width x channels bytes. Pixel (y, x) stands for the
/// reduction x reduction pixels of the full image from (covers.top + y reduction, covers.left + x
/// reduction) on. `covers` may reach beyond the full image's lower and right edge by less than
/// `reduction`.
struct Image {
  std::int64_t channels = 0, height = 0, width = 0;
  std::int64_t reduction = 1;  // 1, 2, 4 or 8
  Region covers;               // of the full image: {top, left, height reduction, width reduction}
  std::vector<std::uint8_t> pixels;
  std::string
      damage;  // what was borne, e.g. "ends early: all rows from about row 300 on are missing ..."

  /// Exactly these pixels at full size, which are not set.
  void set_region(const Region& region, std::int64_t channels);
};

/// Larger images are refused before anything is allocated for them.
constexpr std::int64_t largest_image = 64'000'000;  // pixels

/// No JPEG or PNG is shorter; so an index never needs more memory than the files have bytes.
constexpr std::size_t smallest_image = 64;

constexpr std::int64_t largest_side = 65'535;  // pixels; JPEG's own limit

/// Bytes that decoding a file of `bytes` bytes may take, beside some rows: 16 megapixels of any
/// file at 3 bytes a pixel, more of one that has a byte for every 128. Photographs have one for
/// fewer than 20; so what a small file can ask for is bounded, whatever its header says.
constexpr std::int64_t decode_memory(std::size_t bytes) { return 48'000'000 + 384 * bytes; }

/// The encoding of a file by its first bytes; nullopt: neither JPEG nor PNG.
std::optional<Encoding> sniff(Bytes bytes);

/// Channels (of the file: grey 1, else 3), height and width as a person sees it (EXIF orientation
/// applied), from the header alone. Throws std::runtime_error("[jpeg] ..." or "[png] ...") for a
/// damaged header, more than largest_image pixels, or more of them than so few bytes can hold or
/// may ask for (decode_memory; a turned image is counted twice).
ImageShape encoded_shape(const Sample& sample);

/// Decodes at least `region` of the sample into `image` (its buffer is reused), with 1 (grey) or 3
/// (RGB) channels. JPEG: at the largest reduction (scaled inverse DCT) that leaves at least
/// `at_least` of the region, and without the columns and rows that it does not need; planes and
/// PNG: reduction 1. Colours: CMYK and YCCK as Pillow converts them; grey becomes three equal
/// channels, RGB becomes the JPEG's luma; alpha is dropped; 16 bits keep their upper 8. A file that
/// ends early is borne, and `damage` says so, when the rows decoded reach 3/4 of the image (a
/// progressive one: when its second scan has begun); the rest is grey. Throws std::invalid_argument
/// for a region outside the image, std::runtime_error("[jpeg] ...", "[png] ...") for damage.
/// Memory: the result (of a turned image twice), some rows, and for a progressive file 2 bytes a
/// coefficient: together at most decode_memory and 16 MB.
void decode(const Sample& sample, const Region& region, Size at_least, int channels, Image& image);

/// Decodes a whole image at full size.
Image decoded(const Sample& sample, int channels);

}  // namespace dimred::data
