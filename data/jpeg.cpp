// jpeglib.h needs <cstdio> before it and does not include it; jerror.h the codes of warnings.
// clang-format off
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>

#include "data/codecs.h"
#include "data/jitter.h"
#include "support/errors.h"

// libjpeg-turbo's classic interface: TurboJPEG's of version 2.1 knows neither cropped decoding nor
// where a file ended. Errors leave by longjmp, so the functions below it own nothing.
namespace dimred::data {
namespace {

constexpr int most_scans = 200;  // a progressive file needs about 10; each costs a pass

/// A decompressor with what its callbacks found.
struct Decompressor {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf failed{};
  char text[JMSG_LENGTH_MAX] = "";
  bool ended_early = false;
  std::int64_t ended_at = 0;  // scanline, of the reduced image
  int ended_scan = 0;
};

Decompressor& of(j_common_ptr info) { return *static_cast<Decompressor*>(info->client_data); }

[[noreturn]] void on_error(j_common_ptr info) {
  auto& decompressor = of(info);
  info->err->format_message(info, decompressor.text);
  std::longjmp(decompressor.failed, 1);
}

void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // a trace
  ++info->err->num_warnings;
  auto& decompressor = of(info);
  if (info->err->msg_code != JWRN_JPEG_EOF || decompressor.ended_early) return;
  decompressor.ended_early = true;
  decompressor.ended_at = static_cast<std::int64_t>(decompressor.info.output_scanline);
  decompressor.ended_scan = decompressor.info.input_scan_number;
}

void on_progress(j_common_ptr info) {
  auto& decompressor = of(info);
  if (decompressor.info.input_scan_number <= most_scans) return;
  std::snprintf(decompressor.text, sizeof decompressor.text, "more than %d scans", most_scans);
  std::longjmp(decompressor.failed, 1);
}

/// `memory`: bytes, for the coefficients of a progressive file.
void start(Decompressor& decompressor, std::span<const std::uint8_t> bytes, std::int64_t memory) {
  auto& info = decompressor.info;
  info.err = jpeg_std_error(&decompressor.errors);
  decompressor.errors.error_exit = on_error;
  decompressor.errors.emit_message = on_message;
  decompressor.progress.progress_monitor = on_progress;
  info.client_data = &decompressor;  // jpeg_create_decompress keeps both
  jpeg_create_decompress(&info);
  info.progress = &decompressor.progress;
  info.mem->max_memory_to_use = std::max<long>(memory, 1);  // 0: no limit
  jpeg_mem_src(&info, bytes.data(), bytes.size());
  jpeg_read_header(&info, TRUE);
}

/// Sets the output's colours and size. CMYK is converted afterwards.
void configure(Decompressor& decompressor, std::int64_t reduction, int channels) {
  auto& info = decompressor.info;
  if (info.num_components == 4) {
    info.out_color_space = JCS_CMYK;
  } else {
    info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  }
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(reduction);
  info.dct_method = JDCT_ISLOW;
}

/// One value of CMYK (stored inverted, as Adobe does) as Pillow converts it: 255 - C is `ink`, and
/// the result is key - round((255 - ink) key / 255).
std::uint8_t without_key(std::uint8_t ink, std::uint8_t key) {
  const int product = (255 - ink) * key + 128;
  const int rounded = ((product >> 8) + product) >> 8;
  return static_cast<std::uint8_t>(std::max(0, key - rounded));
}

void from_cmyk(const std::uint8_t* row, std::int64_t width, int channels, std::uint8_t* out) {
  for (std::int64_t x = 0; x < width; ++x, row += 4, out += channels) {
    const auto red = without_key(row[0], row[3]), green = without_key(row[1], row[3]),
               blue = without_key(row[2], row[3]);
    if (channels == 1) {
      out[0] = grey_of(red, green, blue);
    } else {
      out[0] = red, out[1] = green, out[2] = blue;
    }
  }
}

/// What is read, in pixels of the reduced image.
struct Window {
  JDIMENSION top = 0, height = 0, left = 0, width = 0;
};

Window window_of(const jpeg_decompress_struct& info, const Region& region, std::int64_t reduction) {
  // Smooth upsampling looks at a neighbour of each chroma sample, which a cropped row lacks at its
  // ends: two columns more on each side keep that out of the region.
  constexpr std::int64_t margin = 2;
  const auto width = static_cast<std::int64_t>(info.output_width);
  const auto bottom = (region.top + region.height + reduction - 1) / reduction;
  const auto right =
      std::min(width, (region.left + region.width + reduction - 1) / reduction + margin);
  Window window;
  window.top = static_cast<JDIMENSION>(region.top / reduction);
  window.height = static_cast<JDIMENSION>(bottom) - window.top;
  window.left =
      static_cast<JDIMENSION>(std::max<std::int64_t>(0, region.left / reduction - margin));
  window.width = static_cast<JDIMENSION>(right) - window.left;
  return window;
}

/// Reads the window into `image`, whose vector is the caller's, as is `row` (4 width bytes).
/// Returns false after an error.
bool read(Decompressor& decompressor,
          std::span<const std::uint8_t> bytes,
          const Region& region,
          std::int64_t reduction,
          int channels,
          Image& image,
          std::vector<std::uint8_t>& row) {
  if (setjmp(decompressor.failed) != 0) return false;
  auto& info = decompressor.info;
  const auto result = region.height * region.width * channels / (reduction * reduction);
  start(decompressor, bytes, decode_memory(bytes.size()) - result);
  configure(decompressor, reduction, channels);
  jpeg_start_decompress(&info);
  auto window = window_of(info, region, reduction);
  if (window.width < info.output_width) {
    jpeg_crop_scanline(&info, &window.left, &window.width);
  }
  image.reduction = reduction;
  image.channels = channels;
  image.height = window.height;
  image.width = window.width;
  image.covers = {.top = window.top * reduction,
                  .left = window.left * reduction,
                  .height = image.height * reduction,
                  .width = image.width * reduction};
  const auto row_size = static_cast<std::size_t>(image.width * channels);
  image.pixels.resize(row_size * window.height);
  const bool is_cmyk = info.out_color_space == JCS_CMYK;
  if (is_cmyk) row.resize(4 * static_cast<std::size_t>(image.width));
  if (window.top > 0) jpeg_skip_scanlines(&info, window.top);
  for (std::size_t y = 0; y < window.height; ++y) {
    auto* to = image.pixels.data() + y * row_size;
    auto* line = is_cmyk ? row.data() : to;
    jpeg_read_scanlines(&info, &line, 1);
    if (is_cmyk) from_cmyk(line, image.width, channels, to);
  }
  return true;
}

}  // namespace

void decode_jpeg(std::span<const std::uint8_t> bytes,
                 const Region& region,
                 std::int64_t reduction,
                 int channels,
                 Image& image) {
  Decompressor decompressor;
  std::vector<std::uint8_t> row;
  const bool sound = read(decompressor, bytes, region, reduction, channels, image, row);
  const auto& info = decompressor.info;
  const auto height = static_cast<std::int64_t>(info.image_height);
  const auto components = info.num_components;
  const bool progressive = info.progressive_mode != FALSE;
  jpeg_destroy_decompress(
      &decompressor.info);  // without finishing: the rest of the file is not read
  require_environment(components == 1 || components == 3 || components == 4 || !sound,
                      "[jpeg] needs 1, 3 or 4 components, received {}",
                      components);
  require_environment(sound, "[jpeg] {}", decompressor.text);
  if (!decompressor.ended_early) return;
  const auto row_reached = decompressor.ended_at * reduction;
  const bool enough = progressive ? decompressor.ended_scan >= 2 : is_enough(row_reached, height);
  require_environment(enough,
                      "[jpeg] the file ends early, at row {} of {}{}",
                      row_reached,
                      height,
                      progressive ? " (in the first scan)" : "");
  image.damage =
      progressive
          ? formatted("ends early, in scan {}", decompressor.ended_scan)
          : formatted("ends early: rows from about {} of {} on are missing", row_reached, height);
}

}  // namespace dimred::data
