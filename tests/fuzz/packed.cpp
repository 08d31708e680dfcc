#include "data/packed.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/digest.h"
#include "tests/fuzz/fuzz.h"

// A packed file, all samples read. The description's digest is set right, so that what lies behind
// is reached.
std::vector<std::string> dimred::fuzz::seeds() {
  const auto path =
      std::filesystem::temp_directory_path() / ("fuzz_packed_" + std::to_string(::getpid()));
  const auto image = small_png();
  data::PackedWriter writer(path);
  writer.add({.encoding = data::Encoding::png,
              .bytes = {reinterpret_cast<const std::uint8_t*>(image.data()), image.size()},
              .label = 1});
  const std::vector<std::uint8_t> planes(3 * 4 * 5, 9);
  writer.add({.shape = {3, 4, 5}, .bytes = planes, .label = 0});
  writer.finish("source", {"zero", "one"});
  std::ifstream in(path, std::ios::binary);
  const std::string file(std::istreambuf_iterator<char>(in), {});
  std::filesystem::remove(path);
  return {file};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t place_at = 16, digest_at = 32, header = 64;
  std::vector<std::uint8_t> bytes(data, data + size);
  if (size >= header) {
    std::uint64_t offset = 0, length = 0;
    std::memcpy(&offset, data + place_at, 8);
    std::memcpy(&length, data + place_at + 8, 8);
    if (offset <= size && length <= size - offset) {
      const auto right = digest(std::as_bytes(std::span(bytes).subspan(offset, length)));
      std::copy(right.begin(), right.end(), bytes.begin() + digest_at);
    }
  }
  fuzz::bear_errors([&] {
    const auto dataset = data::open_packed(fuzz::file_with(bytes), /*digests=*/false);
    std::vector<std::uint8_t> scratch;
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < dataset->size(); ++i) {
      const auto sample = dataset->read(i, scratch);
      sum += sample.bytes.front() + sample.bytes.back() + dataset->origin(i).size();
      if (sample.label >= dataset->classes()) __builtin_trap();
    }
    if (sum == ~std::uint64_t{0}) __builtin_trap();
  });
  return 0;
}
