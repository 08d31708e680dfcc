// jpeglib.h needs <cstdio> before it and does not include it; jerror.h the codes of warnings.
// clang-format off
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdlib>
#include <optional>
#include <string>

#include "data/codecs.h"
#include "data/encode.h"
#include "data/jitter.h"
#include "support/binary.h"
#include "support/ceiling.h"
#include "support/errors.h"

// libjpeg-turbo's classic interface: TurboJPEG's of version 2.1 knows neither cropped decoding nor
// where a file ended. Errors leave by longjmp, so the functions below it own nothing.
namespace dimred::data {
namespace {

constexpr int most_scans = 200;  // a progressive file needs about 10; each costs a pass

/// The way out of an error, and its text.
struct Errors {
  jpeg_error_mgr manager{};
  std::jmp_buf failed{};
  char text[JMSG_LENGTH_MAX] = "";

  /// For a compressor or decompressor, whose client_data becomes this.
  jpeg_error_mgr* set(auto& library) {
    library.client_data = this;  // which jpeg_create keeps, as it does the manager
    jpeg_std_error(&manager);
    manager.error_exit = [](j_common_ptr library) {
      auto& errors = *static_cast<Errors*>(library->client_data);
      library->err->format_message(library, errors.text);
      std::longjmp(errors.failed, 1);
    };
    return &manager;
  }
};

/// A decompressor with what its callbacks found.
struct Decompressor : Errors {
  jpeg_decompress_struct info{};
  jpeg_progress_mgr progress{};
  bool ended = false;         // all bytes have been taken; libjpeg goes on with an end mark
  bool ended_early = false;   // before all of the image's data had come
  std::int64_t ended_at = 0;  // row of the full image
  int ended_scan = 0;

  Decompressor() = default;
  ~Decompressor() { jpeg_destroy_decompress(&info); }  // unfinished: the file's rest is not read
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
};

Decompressor& of(j_common_ptr info) {
  return static_cast<Decompressor&>(*static_cast<Errors*>(info->client_data));
}

void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // a trace
  ++info->err->num_warnings;
  auto& decompressor = of(info);
  const auto& library = decompressor.info;
  if (info->err->msg_code == JWRN_JPEG_EOF && !decompressor.ended) {
    decompressor.ended = true;
    decompressor.ended_scan = library.input_scan_number;
  }
  // The decoder of coefficients has met the mark before its last bit: rows from here on are grey.
  if (info->err->msg_code != JWRN_HIT_MARKER || !decompressor.ended || decompressor.ended_early)
    return;
  decompressor.ended_early = true;
  decompressor.ended_at =
      std::int64_t{library.input_iMCU_row} * library.max_v_samp_factor * DCTSIZE;
}

void on_progress(j_common_ptr info) {
  auto& decompressor = of(info);
  if (decompressor.info.input_scan_number <= most_scans) return;
  std::snprintf(decompressor.text, sizeof decompressor.text, "more than %d scans", most_scans);
  std::longjmp(decompressor.failed, 1);
}

/// `memory`: bytes, for the coefficients of a progressive file.
void start(Decompressor& decompressor, Bytes bytes, std::int64_t memory) {
  auto& info = decompressor.info;
  info.err = decompressor.set(info);
  info.err->emit_message = on_message;
  decompressor.progress.progress_monitor = on_progress;
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
  info.scale_denom = reduction;
  info.dct_method = JDCT_ISLOW;
}

/// One value of CMYK (stored inverted, as Adobe does) as Pillow converts it: 255 - C is `ink`, and
/// the result is key - round((255 - ink) key / 255).
std::uint8_t without_key(std::uint8_t ink, std::uint8_t key) {
  const int product = (255 - ink) * key + 128;
  const int rounded = ((product >> 8) + product) >> 8;
  return std::max(0, key - rounded);
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

/// The region that is read, in pixels of the reduced image.
struct PixelWindow {
  JDIMENSION top = 0, height = 0, left = 0, width = 0;
};

PixelWindow window_of(const jpeg_decompress_struct& info,
                      const Region& region,
                      std::int64_t reduction) {
  // Smooth upsampling looks at a neighbour of each chroma sample, which a cropped row lacks at its
  // ends: two columns more on each side keep that out of the region.
  constexpr std::int64_t margin = 2;
  const auto bottom = ceiling(region.top + region.height, reduction);
  const auto right = std::min<std::int64_t>(
      info.output_width, ceiling(region.left + region.width, reduction) + margin);
  PixelWindow window;
  window.top = region.top / reduction;
  window.height = bottom - window.top;
  window.left = std::max<std::int64_t>(0, region.left / reduction - margin);
  window.width = right - window.left;
  return window;
}

/// Reads the window into `image`, whose vector is the caller's, as is `row` (4 width bytes).
/// Returns false after an error.
bool read(Decompressor& decompressor,
          Bytes bytes,
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
  const auto row_size = image.width * channels;
  image.pixels.resize(row_size * window.height);
  const bool is_cmyk = info.out_color_space == JCS_CMYK;
  if (is_cmyk) row.resize(4 * image.width);
  if (window.top > 0) jpeg_skip_scanlines(&info, window.top);
  for (std::size_t y = 0; y < window.height; ++y) {
    auto* to = image.pixels.data() + y * row_size;
    auto* line = is_cmyk ? row.data() : to;
    jpeg_read_scanlines(&info, &line, 1);
    if (is_cmyk) from_cmyk(line, image.width, channels, to);
  }
  // Whether a file is damaged does not depend on the region: one without its end mark is read on.
  constexpr std::array<std::uint8_t, 2> end_mark{0xFF, 0xD9};
  if (jpeg_has_multiple_scans(&info) != FALSE) return true;  // was read at the start
  if (bytes.size() >= 2 && std::ranges::equal(bytes.last(2), end_mark)) return true;
  row.resize(std::max<std::size_t>(row.size(), std::int64_t{info.output_components} * image.width));
  auto* line = row.data();
  while (info.output_scanline < info.output_height) jpeg_read_scanlines(&info, &line, 1);
  return true;
}

// A file's size and EXIF orientation by walking its markers: a tenth of a microsecond, where
// libjpeg's header costs several for its tables.
// Formats: ITU-T T.81 annex B; Exif 2.32 (TIFF 6.0 directory).

bool is_frame(std::uint8_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

bool stands_alone(std::uint8_t marker) {
  return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
}

/// A marker with its payload, and where the next one is looked for.
struct MarkerSegment {
  std::uint8_t marker = 0;
  Bytes payload;
  std::size_t next = 0;
};

std::optional<MarkerSegment> segment_at(Bytes bytes, std::size_t at) {
  while (at + 1 < bytes.size()) {
    // Fill bytes, and rubbish between segments, are passed over as libjpeg does.
    if (bytes[at] != 0xFF || bytes[at + 1] == 0xFF || bytes[at + 1] == 0) {
      ++at;
      continue;
    }
    const auto marker = bytes[at + 1];
    at += 2;
    if (stands_alone(marker)) continue;
    if (bytes.size() - at < 2) return std::nullopt;
    const std::size_t length = big_endian<2>(bytes, at);
    if (length < 2 || length > bytes.size() - at) return std::nullopt;
    return MarkerSegment{marker, bytes.subspan(at + 2, length - 2), at + length};
  }
  return std::nullopt;
}

class TiffReader {
 public:
  explicit TiffReader(Bytes bytes) : bytes_(bytes) {
    is_little_ = bytes_.size() >= 2 && bytes_[0] == 'I' && bytes_[1] == 'I';
  }
  std::optional<std::uint32_t> number(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value = value << 8 | bytes_[at + (is_little_ ? size - 1 - i : i)];
    }
    return value;
  }

 private:
  Bytes bytes_;
  bool is_little_;
};

/// EXIF's orientation tag in the payload of an APP1 marker; 1 for a value that it does not have,
/// nullopt where there is no such tag.
std::optional<int> exif_orientation(Bytes payload) {
  constexpr std::string_view magic("Exif\0\0", 6);
  constexpr std::uint32_t orientation_tag = 0x0112;
  if (!text_of(payload).starts_with(magic)) return std::nullopt;
  const TiffReader tiff(payload.subspan(magic.size()));
  if (tiff.number(2, 2).value_or(0) != 42) return std::nullopt;
  const std::size_t directory = tiff.number(4, 4).value_or(0);
  const auto entries = tiff.number(directory, 2).value_or(0);
  for (std::size_t i = 0; i < entries; ++i) {
    const auto entry = directory + 2 + 12 * i;
    const auto tag = tiff.number(entry, 2);
    if (!tag) return std::nullopt;
    if (*tag != orientation_tag) continue;
    // SHORT or LONG, or the same with a sign; other types are no orientation.
    constexpr std::array<std::size_t, 10> bytes_of_type{0, 0, 0, 2, 4, 0, 0, 0, 2, 4};
    const auto type = tiff.number(entry + 2, 2).value_or(0);
    const auto size = type < bytes_of_type.size() ? bytes_of_type[type] : 0;
    const auto value = tiff.number(entry + 8, size).value_or(1);
    return size > 0 && value >= 1 && value <= 8 ? value : 1;
  }
  return std::nullopt;
}

/// XMP's in the same place: tiff:Orientation="6" or <tiff:Orientation>6<.
std::optional<int> xmp_orientation(Bytes payload) {
  const auto text = text_of(payload);
  if (!text.starts_with("http://ns.adobe.com/xap/1.0/")) return std::nullopt;
  for (const std::string_view name : {"tiff:Orientation=\"", "tiff:Orientation>"}) {
    const auto at = text.find(name);
    if (at == text.npos || at + name.size() >= text.size()) continue;
    const int value = text[at + name.size()] - '0';
    if (value >= 1 && value <= 8) return value;
  }
  return std::nullopt;
}

// Only plain data lives here: longjmp runs no destructors. Returns false after an error.
bool compress(const std::uint8_t* pixels,
              const ImageShape& shape,
              int quality,
              Errors& error,
              unsigned char** file,
              unsigned long* size) {
  jpeg_compress_struct library{};
  library.err = error.set(library);
  if (setjmp(error.failed) != 0) {
    jpeg_destroy_compress(&library);
    return false;
  }
  jpeg_create_compress(&library);
  jpeg_mem_dest(&library, file, size);
  library.image_width = shape.width;
  library.image_height = shape.height;
  library.input_components = shape.channels;
  library.in_color_space = shape.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&library);
  jpeg_set_quality(&library, quality, TRUE);
  if (quality >= 90) library.comp_info[0].h_samp_factor = library.comp_info[0].v_samp_factor = 1;
  jpeg_start_compress(&library, TRUE);
  while (library.next_scanline < library.image_height) {
    auto* row =
        const_cast<std::uint8_t*>(pixels) + library.next_scanline * shape.width * shape.channels;
    jpeg_write_scanlines(&library, &row, 1);
  }
  jpeg_finish_compress(&library);
  jpeg_destroy_compress(&library);
  return true;
}

}  // namespace

EncodedHeader jpeg_header(Bytes bytes) {
  require_environment(sniff(bytes) == Encoding::jpeg,
                      "[jpeg] the first bytes are not the signature of a JPEG file");
  EncodedHeader header;
  std::optional<int> exif, xmp;  // the first of each; EXIF's counts, as for Pillow
  std::size_t at = 2;
  while (const auto segment = segment_at(bytes, at)) {
    constexpr std::uint8_t start_of_scan = 0xDA, app1 = 0xE1, end = 0xD9;
    if (segment->marker == start_of_scan || segment->marker == end) break;
    if (segment->marker == app1) {
      if (!exif) exif = exif_orientation(segment->payload);
      if (!xmp) xmp = xmp_orientation(segment->payload);
      header.orientation = exif.value_or(xmp.value_or(1));
    }
    if (is_frame(segment->marker)) {
      require_environment(segment->payload.size() >= 6, "[jpeg] the frame header is too short");
      header.stored = {segment->payload[5] == 1 ? 1 : 3,
                       big_endian<2>(segment->payload, 1),
                       big_endian<2>(segment->payload, 3)};
      // An 8 x 8 block takes a bit at least. A turned image is decoded, then copied.
      require_plausible("jpeg",
                        header.stored,
                        bytes.size(),
                        std::int64_t{8} * 64,
                        header.orientation == 1 ? 1 : 2);
      return header;
    }
    at = segment->next;
  }
  throw std::runtime_error("[jpeg] needs a frame header before the first scan, received none");
}

void decode_jpeg(
    Bytes bytes, const Region& region, std::int64_t reduction, int channels, Image& image) {
  Decompressor decompressor;
  std::vector<std::uint8_t> row;
  const bool sound = read(decompressor, bytes, region, reduction, channels, image, row);
  const auto& info = decompressor.info;
  const std::int64_t height = info.image_height;
  const auto components = info.num_components;
  const bool progressive = info.progressive_mode != FALSE;
  require_environment(components == 1 || components == 3 || components == 4 || !sound,
                      "[jpeg] needs 1, 3 or 4 components, received {}",
                      components);
  require_environment(sound, "[jpeg] {}", decompressor.text);
  if (!decompressor.ended) return;
  const bool whole = !decompressor.ended_early && !progressive;
  const auto row_reached = whole ? height : decompressor.ended_at;
  const bool enough = progressive ? decompressor.ended_scan >= 2 : is_enough(row_reached, height);
  require_environment(enough,
                      "[jpeg] the file ends early, at row {} of {}{}",
                      row_reached,
                      height,
                      progressive ? " (in the first scan)" : "");
  if (progressive) {
    image.damage = formatted("ends early, in scan {}", decompressor.ended_scan);
  } else {
    image.damage =
        whole ? "ends without its end mark; all rows are there"
              : formatted(
                    "ends early: all rows from about row {} on are missing (the image has {} rows)",
                    row_reached,
                    height);
  }
}

std::string to_jpeg(Bytes pixels, const ImageShape& shape, int quality) {
  require_shape(pixels, shape);
  require(
      quality >= 1 && quality <= 100, "[data] needs a quality in [1, 100], received {}", quality);
  unsigned char* file = nullptr;
  unsigned long size = 0;
  Errors error;
  const bool written = compress(pixels.data(), shape, quality, error, &file, &size);
  std::string text(reinterpret_cast<const char*>(file), written ? size : 0);
  std::free(file);
  require_environment(written, "[jpeg] cannot write an image: {}", error.text);
  return text;
}

}  // namespace dimred::data
