#include "data/idx.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "data/format.h"
#include "data/gz_file.h"
#include "data/inflated_file.h"
#include "data/planes.h"
#include "data/unread_files.h"
#include "support/atomic_file.h"
#include "support/binary.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

/// Reads and checks the header: magic 00 00 08 (unsigned bytes) and the number of dimensions.
std::vector<std::uint32_t> read_dimensions(GzFile& file, std::size_t rank) {
  std::array<std::uint8_t, 16> header{};
  const std::size_t length = 4 + 4 * rank;
  const auto got = file.read(std::span(header).first(length));
  require_environment(got == length,
                      "[idx] {}: needs a header of {} bytes, received {} bytes",
                      file.path(),
                      length,
                      got);
  const auto magic = big_endian<4>(header, 0);
  const bool fits = magic == 0x800 + rank;
  require_environment(fits,
                      "[idx] {}: needs magic number {}, received {}{}",
                      file.path(),
                      0x800 + rank,
                      magic,
                      fits ? "" : InputFile(file.path()).placeholder_remark());
  std::vector<std::uint32_t> dimensions;
  for (std::size_t i = 0; i < rank; ++i) {
    dimensions.push_back(big_endian<4>(header, 4 + 4 * i));
    require_environment(dimensions.back() >= 1,
                        "[idx] {}: needs dimensions >= 1, received 0 as dimension {}",
                        file.path(),
                        i);
  }
  return dimensions;
}

/// Bytes of the data, once it is known that the file can hold them.
std::size_t data_size(const GzFile& input, const std::vector<std::uint32_t>& dimensions) {
  std::uint64_t size = 1;
  bool fits = true;
  for (const auto dimension : dimensions)
    fits = fits && !__builtin_mul_overflow(size, dimension, &size);
  const std::uint64_t header = 4 + 4 * dimensions.size();
  const std::uint64_t file = fs::file_size(input.path());
  const bool packed = input.packed();
  fits = fits && (packed ? size <= std::min(deflate_ratio * (file + 1),
                                            largest_ratio * file + largest_surplus)
                         : size + header == file);
  require_environment(
      fits,
      "[idx] {}: the dimensions in the header need {}{} + {} bytes, received a file of {}{}",
      input.path(),
      dimensions.front(),
      dimensions.size() == 3 ? formatted(" x {} x {}", dimensions[1], dimensions[2]) : "",
      header,
      file,
      packed ? " compressed bytes, which is too small" : " bytes");
  return size;
}

std::string dotted(std::string name) {
  name[name.find("-idx")] = '.';
  return name;
}

/// train-images-idx3-ubyte as MNIST's site names it, or train-images.idx3-ubyte as some archives
/// do, plain or .gz; empty when there is none.
fs::path file_of(const fs::path& folder, const std::string& name) {
  for (const auto& form : {name, name + ".gz", dotted(name), dotted(name) + ".gz"})
    if (fs::is_regular_file(folder / form)) return folder / form;
  return {};
}

fs::path find_file(const fs::path& folder, const std::string& name) {
  auto file = file_of(folder, name);
  require(!file.empty(),
          "[idx] needs the file {} (or {}; .gz may follow the name), received {}; the Debian "
          "package dataset-fashion-mnist has the files of Fashion-MNIST",
          folder / name,
          dotted(name),
          fs::is_directory(folder) ? "a folder without this file" + remark_on_files_in(folder)
                                   : "no such folder");
  return file;
}

/// Returns whether neither file of the test set is there; with one of them, the other is missing.
bool lacks_test_set(const fs::path& folder) {
  return fs::is_directory(folder) && file_of(folder, "t10k-images-idx3-ubyte").empty() &&
         file_of(folder, "t10k-labels-idx1-ubyte").empty();
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
  require_environment(
      got == array.size, "[idx] {}: needs {} bytes of data, received {}", path, array.size, got);
  // One more read meets the end, where zlib compares the checksum; a byte here is one too many.
  std::uint8_t beyond = 0;
  require_environment(file.read({&beyond, 1}) == 0,
                      "[idx] {}: needs {} bytes of data, received more",
                      path,
                      array.size);
  return array;
}

bool holds_idx(const fs::path& folder) {
  return std::ranges::any_of(std::array{"train-images-idx3-ubyte",
                                        "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte",
                                        "t10k-labels-idx1-ubyte"},
                             [&](const auto* name) { return !file_of(folder, name).empty(); });
}

fs::path default_fashion_mnist_folder() { return "/usr/share/datasets/fashion-mnist"; }

std::unique_ptr<Dataset> open_idx(const fs::path& folder, bool train, std::int64_t classes) {
  const std::string prefix = train ? "train" : "t10k";
  const auto images = find_file(folder, prefix + "-images-idx3-ubyte");
  const auto labels = find_file(folder, prefix + "-labels-idx1-ubyte");
  const auto pixels = std::make_shared<IdxArray>(read_idx_array(images, 3));
  const auto numbers = read_idx_array(labels, 1);
  return planes_dataset(
      {.kind = "idx",
       .images_file = images,
       .labels_file = labels,
       .shape = {1, pixels->dimensions[1], pixels->dimensions[2]},
       .pixels = pixels->span(),
       .owner = pixels,
       .labels = {numbers.span().begin(), numbers.span().end()},
       .class_names = numbered_classes(classes),
       .train = train,
       .digest = formatted(
           "xxh3 images {} labels {}", digest_of(pixels->span()), digest_of(numbers.span()))});
}

namespace formats {
DatasetFormat idx() {
  return {.holds = holds_idx,
          .open = [](const DatasetRequest& request) -> std::unique_ptr<Dataset> {
            const auto classes = request.options.num_classes;
            if (!request.takes_all() && lacks_test_set(request.path)) return nullptr;
            return open_idx(request.path, request.train, classes > 0 ? classes : 10);
          },
          .train_files = "train-images-idx3-ubyte and train-labels-idx1-ubyte",
          .test_files = "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte",
          .is_array = true};
}
}  // namespace formats

}  // namespace dimred::data
