#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>

#include "data/codecs.h"
#include "support/errors.h"

// libpng's row interface. Errors leave by longjmp, so the functions below it own nothing.
namespace dimred::data {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t signature_bytes = 8;
constexpr png_alloc_size_t largest_chunk = 8'000'000;  // of text, colour profiles and such
constexpr std::size_t smallest_request = 512;
constexpr std::int64_t deflate_ratio = 1032;  // largest of zlib

struct Reader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  Bytes rest;
  char text[256] = "";
  std::int64_t row = 0;  // rows read
};

void take(png_structp png, png_bytep to, std::size_t count) {
  auto& reader = *static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader.rest.size()) png_error(png, "the file ends early");
  std::memcpy(to, reader.rest.data(), count);
  reader.rest = reader.rest.subspan(count);
}

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto& reader = *static_cast<Reader*>(png_get_error_ptr(png));
  std::snprintf(reader.text, sizeof reader.text, "%s", text);
  png_longjmp(png, 1);
}

void on_warning(png_structp /*png*/, png_const_charp /*text*/) {}

std::uint32_t big_endian(Bytes bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | bytes[at + i];
  return value;
}

/// Any PNG as 8-bit grey or RGB.
void configure(const Reader& reader, int channels) {
  auto* png = reader.png;
  const auto colour = png_get_color_type(png, reader.info);
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  const bool is_grey = (colour & PNG_COLOR_MASK_COLOR) == 0;
  if (channels == 3 && is_grey) png_set_gray_to_rgb(png);
  // ITU-R 601 luma, as Pillow's.
  if (channels == 1 && !is_grey) png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, .299, .587);
}

/// `rows` is the caller's buffer: one row, or for an interlaced file all of them. Returns false
/// after an error.
bool read(Reader& reader,
          const Region& region,
          int channels,
          std::vector<std::uint8_t>& rows,
          Image& image) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  auto* png = reader.png;
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // our own is checked before
  png_set_chunk_malloc_max(png, largest_chunk);
  png_set_read_fn(png, &reader, take);
  // A file that is cut short is lost from the request on that it cannot fill: 8 KB by default.
  png_set_compression_buffer_size(png, smallest_request);
  png_read_info(png, reader.info);
  configure(reader, channels);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, reader.info);
  const auto height = static_cast<std::int64_t>(png_get_image_height(png, reader.info));
  const auto row_size = png_get_rowbytes(png, reader.info);
  const auto pixel = static_cast<std::size_t>(channels);
  if (row_size != pixel * png_get_image_width(png, reader.info)) png_error(png, "an odd row size");
  const bool interlaced = passes > 1;
  rows.resize(interlaced ? row_size * static_cast<std::size_t>(height) : row_size);
  const auto end = region.top + region.height;
  for (int pass = 0; pass < passes; ++pass) {
    for (reader.row = 0; reader.row < (interlaced ? height : end); ++reader.row) {
      auto* row = rows.data() + (interlaced ? static_cast<std::size_t>(reader.row) * row_size : 0);
      png_read_row(png, row, nullptr);
      if (pass + 1 < passes || reader.row < region.top || reader.row >= end) continue;
      std::memcpy(image.pixels.data() +
                      static_cast<std::size_t>((reader.row - region.top) * region.width) * pixel,
                  row + static_cast<std::size_t>(region.left) * pixel,
                  static_cast<std::size_t>(region.width) * pixel);
    }
  }
  return true;
}

}  // namespace

EncodedHeader png_header(Bytes bytes) {
  require_environment(sniff(bytes) == Encoding::png, "png", "needs a PNG file's first bytes");
  // Signature, then the header chunk: length, "IHDR", width, height, depth, colour type.
  require_environment(bytes.size() >= signature_bytes + 8 + 13 &&
                          std::memcmp(bytes.data() + signature_bytes + 4, "IHDR", 4) == 0,
                      "png",
                      "needs the header chunk first");
  const auto width = big_endian(bytes, signature_bytes + 8);
  const auto height = big_endian(bytes, signature_bytes + 12);
  require_environment(width <= PNG_UINT_31_MAX && height <= PNG_UINT_31_MAX,
                      "png",
                      "needs sizes below 2^31, received ",
                      height,
                      " x ",
                      width);
  const auto colour = bytes[signature_bytes + 17];
  EncodedHeader header;
  header.stored = {(colour & PNG_COLOR_MASK_COLOR) == 0 ? 1 : 3, height, width};
  // One bit a pixel, compressed as far as deflate can.
  require_plausible("png", header.stored, bytes.size(), 8 * deflate_ratio);
  return header;
}

void decode_png(Bytes bytes, const Region& region, int channels, Image& image) {
  const auto height = png_header(bytes).stored.height;
  image.reduction = 1;
  image.covers = region;
  image.channels = channels;
  image.height = region.height;
  image.width = region.width;
  constexpr std::uint8_t grey = 128;  // of rows that are missing
  image.pixels.assign(static_cast<std::size_t>(region.height * region.width * channels), grey);
  Reader reader{.rest = bytes};
  std::vector<std::uint8_t> rows;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  require_environment(reader.png != nullptr, "png", "libpng could not start");
  reader.info = png_create_info_struct(reader.png);
  const bool sound = reader.info != nullptr && read(reader, region, channels, rows, image);
  const bool interlaced = png_get_interlace_type(reader.png, reader.info) != PNG_INTERLACE_NONE;
  png_destroy_read_struct(&reader.png, &reader.info, nullptr);
  if (sound) return;
  require_environment(!interlaced && is_enough(reader.row, height),
                      "png",
                      reader.text,
                      ", at row ",
                      reader.row,
                      " of ",
                      height);
  image.damage = concat(reader.text, ": rows from ", reader.row, " of ", height, " on are missing");
}

}  // namespace dimred::data
