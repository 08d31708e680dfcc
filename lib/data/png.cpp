#include <png.h>

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>

#include "data/codecs.h"
#include "data/encode.h"
#include "data/inflated_file.h"
#include "data/jitter.h"
#include "data/png_chunks.h"
#include "support/binary.h"
#include "support/errors.h"

// libpng's row interface. Errors leave by longjmp, so the functions below it own nothing.
namespace dimred::data {
namespace {

constexpr png_alloc_size_t largest_chunk = 8'000'000;
// The compressed data taken at a time, from one chunk: Pillow takes the same, so that both see the
// checksum behind the last row, or do not.
constexpr std::size_t largest_request = 65536;

struct Reader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  Bytes rest;
  char text[256] = "";
  std::int64_t row = 0;       // rows read
  int pass = 0, passes = 0;   // of an interlaced image; one of another
  std::size_t row_bytes = 0;  // of the row that is read, before it is expanded
  std::size_t inflated = 0;   // bytes of them, before they are expanded
  std::size_t pixel_bits = 0;
  bool interlaced = false;
  bool ended = false;  // more bytes were asked for than there are
};

void take(png_structp png, png_bytep to, std::size_t count) {
  auto& reader = *static_cast<Reader*>(png_get_io_ptr(png));
  reader.ended = count > reader.rest.size();
  if (reader.ended) png_error(png, "the file ends early");
  std::memcpy(to, reader.rest.data(), count);
  reader.rest = reader.rest.subspan(count);
}

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto& reader = *static_cast<Reader*>(png_get_error_ptr(png));
  std::snprintf(reader.text, sizeof reader.text, "%s", text);
  png_longjmp(png, 1);
}

void on_warning(png_structp /*png*/, png_const_charp /*text*/) {}

/// Any PNG as 8-bit grey or RGB; libpng's own grey of colours is rounded otherwise than Pillow's.
void configure_png(const Reader& reader, int channels) {
  auto* png = reader.png;
  const auto colour = png_get_color_type(png, reader.info);
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  const bool is_grey = (colour & PNG_COLOR_MASK_COLOR) == 0;
  if (channels == 3 && is_grey) png_set_gray_to_rgb(png);
}

/// Moves the columns of the region together; `pixels` are its rows, whole.
void keep_columns(const Region& region,
                  std::size_t pixel,
                  std::size_t row_size,
                  std::vector<std::uint8_t>& pixels) {
  const auto kept = region.width * pixel;
  if (kept == row_size) return;
  for (std::int64_t y = 0; y < region.height; ++y)
    std::memmove(
        pixels.data() + y * kept, pixels.data() + y * row_size + region.left * pixel, kept);
  pixels.resize(region.height * kept);
}

/// Limits and leniency: our own limit of the size is checked before, checksums as Pillow does.
void set_rules(png_structp png) {
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_chunk_malloc_max(png, largest_chunk);
  png_set_crc_action(png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
  png_set_option(png, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);  // some writers state a smaller
  // Texts and profiles would be inflated and kept; a gamma would change how grey is computed.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_compression_buffer_size(png, largest_request);
}

/// Bytes of a stored row in the pass, with its filter's.
std::size_t stored_row(const Reader& reader, int pass, std::int64_t y) {
  std::size_t columns = png_get_image_width(reader.png, reader.info);
  if (reader.interlaced) {
    columns = PNG_PASS_COLS(columns, pass);
    if (columns == 0 || !PNG_ROW_IN_INTERLACE_PASS(y, pass)) return 0;
  }
  return 1 + (columns * reader.pixel_bits + 7) / 8;
}

/// The rows of the region into `image`; the others, into `spare`, are read, too: damage does not
/// depend on the region. Returns false after an error.
bool read_rows(Reader& reader,
               const Region& region,
               int channels,
               std::span<std::uint8_t> spare,
               Image& image) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  auto* png = reader.png;
  set_rules(png);
  png_set_read_fn(png, &reader, take);
  png_read_info(png, reader.info);
  reader.pixel_bits =
      std::size_t{png_get_bit_depth(png, reader.info)} * png_get_channels(png, reader.info);
  configure_png(reader, channels);
  reader.passes = png_set_interlace_handling(png);
  png_read_update_info(png, reader.info);
  const std::int64_t height = png_get_image_height(png, reader.info);
  const auto row_size = png_get_rowbytes(png, reader.info);
  if (row_size != spare.size()) png_error(png, "an odd row size");
  if (reader.interlaced != (reader.passes > 1)) png_error(png, "an odd interlacing");
  for (reader.pass = 0; reader.pass < reader.passes; ++reader.pass) {
    for (reader.row = 0; reader.row < height; ++reader.row) {
      const auto y = reader.row - region.top;
      const bool wanted = y >= 0 && y < region.height;
      reader.row_bytes = stored_row(reader, reader.pass, reader.row);
      png_read_row(png, wanted ? image.pixels.data() + y * row_size : spare.data(), nullptr);
      reader.inflated += reader.row_bytes;
    }
  }
  return true;
}

/// Returns whether all rows were read, and only the end of the image data is missing.
bool is_whole(const Reader& reader, Bytes bytes, std::int64_t height) {
  return reader.pass + 1 == reader.passes && reader.row + 1 == height &&
         holds_row(bytes, reader.inflated, reader.row_bytes);
}

/// Whether an image that lacks rows is borne: a file that ends in the last quarter, or image data
/// that end soundly with a row, which Pillow takes, too.
bool is_borne(const Reader& reader, Bytes bytes, std::int64_t height) {
  if (reader.ended && !reader.interlaced && is_enough(reader.row, height)) return true;
  return reader.inflated > 0 && inflated_size(bytes, reader.inflated) == reader.inflated;
}

/// Makes a coloured image grey, with Pillow's rounding.
void to_grey(Image& image) {
  const auto* from = image.pixels.data();
  const auto count = image.pixels.size() / 3;
  for (std::size_t i = 0; i < count; ++i, from += 3)
    image.pixels[i] = grey_of(from[0], from[1], from[2]);
  image.pixels.resize(count);
  image.channels = 1;
}

}  // namespace

EncodedHeader png_header(Bytes bytes) {
  require_environment(sniff(bytes) == Encoding::png,
                      "[png] the first bytes are not the signature of a PNG file");
  const auto fields = header_fields(bytes);
  require_environment(fields.has_value(), "[png] no header stands before the image data");
  const auto width = fields->width, height = fields->height;
  require_environment(width <= PNG_UINT_31_MAX && height <= PNG_UINT_31_MAX,
                      "[png] needs sizes below 2^31, received {} x {}",
                      height,
                      width);
  EncodedHeader header;
  header.stored = {(fields->colour & PNG_COLOR_MASK_COLOR) == 0 ? 1 : 3, height, width};
  // One bit a pixel, compressed as far as deflate can.
  require_plausible("png", header.stored, bytes.size(), 8 * deflate_ratio);
  return header;
}

void decode_png(Bytes bytes, const Region& region, int channels, Image& image) {
  const auto stored = png_header(bytes).stored;
  if (channels == 1 && stored.channels == 3) {
    decode_png(bytes, region, 3, image);
    return to_grey(image);
  }
  require_sound_head(bytes);
  if (const auto plain = with_plain_head(bytes); !plain.empty())
    return decode_png(plain, region, channels, image);
  if (const auto plain = with_plain_data(bytes); !plain.empty())
    return decode_png(plain, region, channels, image);
  const bool interlaced = header_fields(bytes).value_or(PngFields()).interlaced;
  const auto height = stored.height;
  const auto cut = with_end_of_cut_data(bytes);
  Reader reader{.rest = cut.empty() ? bytes : Bytes(cut), .interlaced = interlaced};
  image.set_region(region, channels);
  constexpr std::uint8_t grey = 128;  // of rows that are missing
  image.pixels.assign(region.height * stored.width * channels, grey);
  std::vector<std::uint8_t> spare(stored.width * channels);
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  require_environment(reader.png != nullptr, "[png] libpng could not start");
  reader.info = png_create_info_struct(reader.png);
  const bool sound = reader.info != nullptr && read_rows(reader, region, channels, spare, image);
  png_destroy_read_struct(&reader.png, &reader.info, nullptr);
  keep_columns(region, channels, stored.width * channels, image.pixels);
  if (sound || is_whole(reader, bytes, height)) return;
  require_environment(is_borne(reader, bytes, height),
                      "[png] {}, at row {} of {}",
                      reader.text,
                      reader.row,
                      height);
  image.damage = formatted("{}: all rows from row {} on are missing (the image has {} rows)",
                           reader.text,
                           reader.row,
                           height);
}

std::string to_png(Bytes pixels, const ImageShape& shape) {
  require_shape(pixels, shape);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = shape.width;
  image.height = shape.height;
  image.format = shape.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(size, '\0');
  const bool written =
      png_image_write_to_memory(&image, file.data(), &size, 0, pixels.data(), 0, nullptr) != 0;
  const std::string message = image.message;
  png_image_free(&image);
  require_environment(written, "[png] cannot write an image: {}", message);
  file.resize(size);
  return file;
}

std::string with_png_text(std::string png, std::string_view keyword, std::string_view text) {
  constexpr std::size_t behind_header = 8 + 4 + 4 + 13 + 4;  // signature and IHDR
  auto content = std::string(keyword) + '\0';
  content += text;
  std::vector<std::uint8_t> chunk;
  append_chunk(chunk, "tEXt", bytes_of(content));
  return png.insert(behind_header, text_of(chunk));
}

}  // namespace dimred::data
