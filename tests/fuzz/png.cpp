#include <png.h>

#include <array>

#include "tests/fuzz/image.h"

namespace {

/// 13 x 11 pixels of any kind; of a palette with transparency.
std::string png_of(int colours, int depth, int interlacing) {
  constexpr png_uint_32 height = 13, width = 11;
  std::string file;
  auto* png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  auto* info = png_create_info_struct(png);
  png_set_write_fn(
      png,
      &file,
      [](png_structp self, png_bytep bytes, std::size_t count) {
        static_cast<std::string*>(png_get_io_ptr(self))
            ->append(reinterpret_cast<char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(png, info, width, height, depth, colours, interlacing, 0, 0);
  std::array<png_color, 4> palette{{{1, 2, 3}, {200, 0, 0}, {0, 200, 0}, {0, 0, 200}}};
  std::array<png_byte, 2> alpha{0, 128};
  if (colours == PNG_COLOR_TYPE_PALETTE) {
    png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
    png_set_tRNS(png, info, alpha.data(), static_cast<int>(alpha.size()), nullptr);
  }
  png_set_gAMA(png, info, 0.5);
  png_write_info(png, info);
  std::vector<png_byte> row(png_get_rowbytes(png, info));
  for (int pass = png_set_interlace_handling(png); pass > 0; --pass) {
    for (png_uint_32 y = 0; y < height; ++y) {
      for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<png_byte>(i * 41 + y * 3);
      png_write_row(png, row.data());
    }
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace

std::vector<std::string> dimred::fuzz::seeds() {
  return {small_png(),
          png_of(PNG_COLOR_TYPE_PALETTE, 2, PNG_INTERLACE_NONE),
          png_of(PNG_COLOR_TYPE_PALETTE, 2, PNG_INTERLACE_ADAM7),
          png_of(PNG_COLOR_TYPE_RGB, 8, PNG_INTERLACE_ADAM7),
          png_of(PNG_COLOR_TYPE_RGB_ALPHA, 16, PNG_INTERLACE_NONE),
          png_of(PNG_COLOR_TYPE_GRAY, 1, PNG_INTERLACE_NONE),
          png_of(PNG_COLOR_TYPE_GRAY_ALPHA, 16, PNG_INTERLACE_ADAM7)};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  parse_image(data::Encoding::png, {data, size});
  return 0;
}
