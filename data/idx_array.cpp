#include "data/idx_array.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "data/gz_file.h"
#include "data/paths.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

// Deflate's largest ratio (zlib's technical notes: 1032:1); an announced size beyond it is a lie.
constexpr std::uint64_t deflate_ratio = 1032;
// Images have about 5; what a compressed file may ask for is bounded as data/inflated_file.h's
// copies are.
constexpr std::uint64_t largest_ratio = 100, largest_surplus = 64 << 20;

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
                      "idx",
                      path_text(file.path()),
                      ": needs a header of ",
                      length,
                      " bytes, received ",
                      got);
  require_environment(big_endian(header.data()) == 0x800 + rank,
                      "idx",
                      path_text(file.path()),
                      ": needs magic number ",
                      0x800 + rank,
                      ", received ",
                      big_endian(header.data()));
  std::vector<std::uint64_t> dimensions(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    dimensions[i] = big_endian(header.data() + 4 + 4 * i);
    require_environment(dimensions[i] >= 1,
                        "idx",
                        path_text(file.path()),
                        ": needs dimensions >= 1, received 0 as dimension ",
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
      "idx",
      path_text(input.path()),
      ": needs the bytes that its dimensions announce (",
      dimensions.front(),
      dimensions.size() == 3 ? concat(" x ", dimensions[1], " x ", dimensions[2]) : std::string(),
      " + ",
      header,
      "), received a file of ",
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
                      "idx",
                      path_text(path),
                      ": needs ",
                      array.size,
                      " bytes of data, received ",
                      got);
  // One more read meets the end, where zlib compares the checksum; a byte here is one too many.
  std::uint8_t beyond = 0;
  require_environment(file.read({&beyond, 1}) == 0,
                      "idx",
                      path_text(path),
                      ": needs ",
                      array.size,
                      " bytes of data, received more");
  return array;
}

}  // namespace dimred::data
