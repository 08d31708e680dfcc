#include "data/encode.h"

#include <jpeglib.h>
#include <png.h>

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "support/bytes.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

void require_shape(std::span<const std::uint8_t> pixels, const ImageShape& shape) {
  constexpr std::int64_t longest = 65500;  // JPEG's
  require((shape.channels == 1 || shape.channels == 3) && shape.height >= 1 && shape.width >= 1 &&
              shape.height <= longest && shape.width <= longest &&
              std::ssize(pixels) == shape.size(),
          "[data::encode] needs 1 or 3 channels of at most {} x {} pixels, received {} of {} x {} "
          "and {} bytes",
          longest,
          longest,
          shape.channels,
          shape.height,
          shape.width,
          pixels.size());
}

struct JpegError {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX];
};

void leave(j_common_ptr library) {
  auto* error = reinterpret_cast<JpegError*>(library->err);
  library->err->format_message(library, error->text);
  std::longjmp(error->back, 1);
}

// Only plain data lives here: longjmp runs no destructors. Returns false after an error.
bool compress(const std::uint8_t* pixels,
              const ImageShape& shape,
              int quality,
              JpegError& error,
              unsigned char** file,
              unsigned long* size) {
  jpeg_compress_struct library{};
  library.err = jpeg_std_error(&error.manager);
  error.manager.error_exit = leave;
  if (setjmp(error.back) != 0) {
    jpeg_destroy_compress(&library);
    return false;
  }
  jpeg_create_compress(&library);
  jpeg_mem_dest(&library, file, size);
  library.image_width = static_cast<JDIMENSION>(shape.width);
  library.image_height = static_cast<JDIMENSION>(shape.height);
  library.input_components = static_cast<int>(shape.channels);
  library.in_color_space = shape.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&library);
  jpeg_set_quality(&library, quality, TRUE);
  if (quality >= 90) library.comp_info[0].h_samp_factor = library.comp_info[0].v_samp_factor = 1;
  jpeg_start_compress(&library, TRUE);
  while (library.next_scanline < library.image_height) {
    auto* row = const_cast<std::uint8_t*>(pixels) + std::size_t{library.next_scanline} *
                                                        library.image_width *
                                                        static_cast<std::size_t>(shape.channels);
    jpeg_write_scanlines(&library, &row, 1);
  }
  jpeg_finish_compress(&library);
  jpeg_destroy_compress(&library);
  return true;
}

std::string transposed(std::span<const std::uint8_t> from, std::int64_t outer, std::int64_t inner) {
  std::string out(from.size(), '\0');
  for (std::int64_t i = 0; i < outer; ++i)
    for (std::int64_t j = 0; j < inner; ++j)
      out[static_cast<std::size_t>(j * outer + i)] =
          static_cast<char>(from[static_cast<std::size_t>(i * inner + j)]);
  return out;
}

}  // namespace

std::string to_png(std::span<const std::uint8_t> pixels, const ImageShape& shape) {
  require_shape(pixels, shape);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(shape.width);
  image.height = static_cast<png_uint_32>(shape.height);
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

std::string to_jpeg(std::span<const std::uint8_t> pixels, const ImageShape& shape, int quality) {
  require_shape(pixels, shape);
  require(quality >= 1 && quality <= 100,
          "[data::to_jpeg] needs a quality in [1, 100], received {}",
          quality);
  unsigned char* file = nullptr;
  unsigned long size = 0;
  JpegError error{};
  const bool written = compress(pixels.data(), shape, quality, error, &file, &size);
  std::string text(reinterpret_cast<const char*>(file), written ? size : 0);
  std::free(file);
  require_environment(written, "[jpeg] cannot write an image: {}", error.text);
  return text;
}

std::string to_planes(std::span<const std::uint8_t> interleaved, const ImageShape& shape) {
  return transposed(interleaved, shape.height * shape.width, shape.channels);
}

std::string to_interleaved(std::span<const std::uint8_t> planes, const ImageShape& shape) {
  return transposed(planes, shape.channels, shape.height * shape.width);
}

std::string to_file(const Sample& sample) {
  if (sample.encoding != Encoding::planes) return {sample.bytes.begin(), sample.bytes.end()};
  return to_png(bytes_of(to_interleaved(sample.bytes, sample.shape)), sample.shape);
}

}  // namespace dimred::data
