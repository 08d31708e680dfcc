// jpeglib.h needs <cstdio> before it and does not include it.
// clang-format off
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>
// clang-format on

#include <cstdlib>

#include "tests/fuzz/image.h"

namespace {

/// 24 x 19 pixels; CMYK as Adobe writes it.
std::string jpeg_of(bool progressive, J_COLOR_SPACE colours) {
  constexpr JDIMENSION height = 24, width = 19;
  jpeg_error_mgr errors{};
  jpeg_compress_struct info{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_height = height;
  info.image_width = width;
  info.input_components = colours == JCS_CMYK ? 4 : 3;
  info.in_color_space = colours;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 60, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<JSAMPLE> row(width * 4);
  while (info.next_scanline < height) {
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = static_cast<JSAMPLE>(i * 11 + info.next_scanline * 7);
    auto* line = row.data();
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return file;
}

/// With an EXIF directory of one entry, the orientation.
std::string turned(std::string file, char orientation) {
  const std::string exif(
      "\xff\xe1\0\x22"
      "Exif\0\0"
      "II*\0\x08\0\0\0"
      "\1\0"
      "\x12\1\3\0\1\0\0\0",
      28);
  return file.insert(2, exif + orientation + std::string(7, '\0'));
}

}  // namespace

std::vector<std::string> dimred::fuzz::seeds() {
  return {small_jpeg(),
          small_jpeg(true),
          jpeg_of(true, JCS_RGB),
          jpeg_of(false, JCS_CMYK),
          jpeg_of(true, JCS_CMYK),
          turned(small_jpeg(), 6),
          turned(small_jpeg(true), 3)};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  parse_image(data::Encoding::jpeg, {data, size});
  return 0;
}
