#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>

#include "data/codecs.h"
#include "data/inflated_file.h"
#include "support/errors.h"

// libpng's row interface. Errors leave by longjmp, so the functions below it own nothing.
namespace dimred::data {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t signature_bytes = 8;
constexpr png_alloc_size_t largest_chunk = 8'000'000;
constexpr std::size_t smallest_request = 512;
// Signature, then the header chunk: length, "IHDR", width, height, depth, colour type,
// compression, filter, interlacing, checksum.
constexpr std::size_t header_at = signature_bytes + 8, colour_at = header_at + 9,
                      interlacing_at = header_at + 12, header_bytes = 13;

struct Reader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  Bytes rest;
  char text[256] = "";
  std::int64_t row = 0;  // rows read
  bool interlaced = false;
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

std::uint32_t big_endian_32(Bytes bytes, std::size_t at) {
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

/// Moves the columns of the region together; `pixels` are its rows, whole.
void keep_columns(const Region& region,
                  std::size_t pixel,
                  std::size_t row_size,
                  std::vector<std::uint8_t>& pixels) {
  const auto kept = static_cast<std::size_t>(region.width) * pixel;
  for (std::size_t y = 0; y < static_cast<std::size_t>(region.height); ++y)
    std::memmove(pixels.data() + y * kept,
                 pixels.data() + y * row_size + static_cast<std::size_t>(region.left) * pixel,
                 kept);
  pixels.resize(static_cast<std::size_t>(region.height) * kept);
}

/// `spare` is the caller's buffer for a row. The rows of an interlaced file, which come several
/// times, are put together in the image itself. Returns false after an error.
bool read(Reader& reader,
          const Region& region,
          int channels,
          std::vector<std::uint8_t>& spare,
          Image& image) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  auto* png = reader.png;
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // our own is checked before
  png_set_chunk_malloc_max(png, largest_chunk);
  // Texts and profiles would be inflated and kept; a gamma would change how grey is computed.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
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
  const bool interlaced = reader.interlaced;
  if (interlaced != (passes > 1)) png_error(png, "an odd interlacing");
  spare.resize(row_size);
  const auto kept = static_cast<std::size_t>(region.width) * pixel;
  const auto end = region.top + region.height;
  for (int pass = 0; pass < passes; ++pass) {
    for (reader.row = 0; reader.row < (interlaced ? height : end); ++reader.row) {
      const bool wanted = reader.row >= region.top && reader.row < end;
      const auto y = static_cast<std::size_t>(wanted ? reader.row - region.top : 0);
      if (interlaced) {
        png_read_row(png, wanted ? image.pixels.data() + y * row_size : spare.data(), nullptr);
        continue;
      }
      png_read_row(png, spare.data(), nullptr);
      if (wanted)
        std::memcpy(image.pixels.data() + y * kept,
                    spare.data() + static_cast<std::size_t>(region.left) * pixel,
                    kept);
    }
  }
  if (interlaced) keep_columns(region, pixel, row_size, image.pixels);
  return true;
}

}  // namespace

EncodedHeader png_header(Bytes bytes) {
  require_environment(sniff(bytes) == Encoding::png, "[png] needs a PNG file's first bytes");
  require_environment(bytes.size() >= header_at + header_bytes &&
                          std::memcmp(bytes.data() + signature_bytes + 4, "IHDR", 4) == 0,
                      "[png] needs the header chunk first");
  const auto width = big_endian_32(bytes, header_at);
  const auto height = big_endian_32(bytes, header_at + 4);
  require_environment(width <= PNG_UINT_31_MAX && height <= PNG_UINT_31_MAX,
                      "[png] needs sizes below 2^31, received {} x {}",
                      height,
                      width);
  const auto colour = bytes[colour_at];
  EncodedHeader header;
  header.stored = {(colour & PNG_COLOR_MASK_COLOR) == 0 ? 1 : 3, height, width};
  // One bit a pixel, compressed as far as deflate can.
  require_plausible(
      "png", header.stored, bytes.size(), static_cast<std::int64_t>(8 * deflate_ratio));
  return header;
}

void decode_png(Bytes bytes, const Region& region, int channels, Image& image) {
  const auto stored = png_header(bytes).stored;
  const auto height = stored.height;
  Reader reader{.rest = bytes, .interlaced = bytes[interlacing_at] != 0};
  image.reduction = 1;
  image.covers = region;
  image.channels = channels;
  image.height = region.height;
  image.width = region.width;
  constexpr std::uint8_t grey = 128;  // of rows that are missing
  const auto row = reader.interlaced ? stored.width : region.width;
  image.pixels.assign(static_cast<std::size_t>(region.height * row * channels), grey);
  std::vector<std::uint8_t> spare;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  require_environment(reader.png != nullptr, "[png] libpng could not start");
  reader.info = png_create_info_struct(reader.png);
  const bool sound = reader.info != nullptr && read(reader, region, channels, spare, image);
  png_destroy_read_struct(&reader.png, &reader.info, nullptr);
  if (sound) return;
  require_environment(!reader.interlaced && is_enough(reader.row, height),
                      "[png] {}, at row {} of {}",
                      reader.text,
                      reader.row,
                      height);
  image.damage =
      formatted("{}: rows from {} of {} on are missing", reader.text, reader.row, height);
}

}  // namespace dimred::data
