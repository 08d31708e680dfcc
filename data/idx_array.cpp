#include "data/idx_array.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "data/gz_file.h"
#include "data/inflated_file.h"
#include "data/paths.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

/// Reads and checks the header: magic 00 00 08 (unsigned bytes) and the number of dimensions.
std::vector<std::uint64_t> read_dimensions(GzFile& file, std::size_t rank) {
  std::array<std::uint8_t, 16> header{};
  const std::size_t length = 4 + 4 * rank;
  const auto got = file.read(std::span(header).first(length));
  require_environment(got == length,
                      "[idx] {}: needs a header of {} bytes, received {}",
                      path_text(file.path()),
                      length,
                      got);
  require_environment(big_endian(header.data()) == 0x800 + rank,
                      "[idx] {}: needs magic number {}, received {}",
                      path_text(file.path()),
                      0x800 + rank,
                      big_endian(header.data()));
  std::vector<std::uint64_t> dimensions(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    dimensions[i] = big_endian(header.data() + 4 + 4 * i);
    require_environment(dimensions[i] >= 1,
                        "[idx] {}: needs dimensions >= 1, received 0 as dimension {}",
                        path_text(file.path()),
                        i);
  }
  return dimensions;
}

/// Bytes of the data, once it is known that the file can hold them.
std::size_t data_size(const GzFile& input, const std::vector<std::uint64_t>& dimensions) {
  std::uint64_t size = 1;
  bool fits = true;
  for (const auto dimension : dimensions) {
    fits = fits && size <= std::numeric_limits<std::int64_t>::max() / dimension;
    if (fits) size *= dimension;
  }
  const std::uint64_t header = 4 + 4 * dimensions.size();
  const std::uint64_t file = fs::file_size(input.path());
  const bool packed = input.packed();
  fits = fits && (packed ? size <= std::min(deflate_ratio * (file + 1),
                                            largest_ratio * file + largest_surplus)
                         : size + header == file);
  require_environment(
      fits,
      "[idx] {}: needs the bytes that its dimensions announce ({}{} + {}), received a file of {}{}",
      path_text(input.path()),
      dimensions.front(),
      dimensions.size() == 3 ? formatted(" x {} x {}", dimensions[1], dimensions[2])
                             : std::string(),
      header,
      file,
      packed ? " compressed bytes, which cannot hold them" : " bytes");
  return size;
}

}  // namespace

IdxArray read_idx_array(const fs::path& path, std::size_t rank) {
  GzFile file(path, "idx");
  IdxArray array;
  array.dimensions = read_dimensions(file, rank);
  array.size = data_size(file, array.dimensions);
  // Not cleared: pages of an announced size that never comes are never touched.
  array.bytes = std::make_unique_for_overwrite<std::uint8_t[]>(array.size);
  const auto got = file.read({array.bytes.get(), array.size});
  require_environment(got == array.size,
                      "[idx] {}: needs {} bytes of data, received {}",
                      path_text(path),
                      array.size,
                      got);
  // One more read meets the end, where zlib compares the checksum; a byte here is one too many.
  std::uint8_t beyond = 0;
  require_environment(file.read({&beyond, 1}) == 0,
                      "[idx] {}: needs {} bytes of data, received more",
                      path_text(path),
                      array.size);
  return array;
}

}  // namespace dimred::data
