#include <algorithm>
#include <cstring>

#include "data/format.h"
#include "data/mapped_array.h"
#include "data/planes.h"
#include "data/splits.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

/// NumPy's arrays in a folder: images.npy, uint8 [n, height, width] or [n, channels, height,
/// width], which stays in its file, and labels.npy, int64 [n].
std::unique_ptr<Dataset> open_arrays(const fs::path& folder, const DatasetRequest& request) {
  const auto images = std::make_shared<MappedArray>(folder / "images.npy", "|u1");
  const MappedArray labels(folder / "labels.npy", "<i8");
  auto shape = images->shape;
  if (shape.size() == 3) shape.insert(shape.begin() + 1, 1);
  require_environment(shape.size() == 4 && std::ranges::min(shape) >= 1 && shape[1] <= 4 &&
                          labels.shape == std::vector{shape[0]},
                      "[npy] {}: needs images [n, height, width] or [n, channels, height, width] "
                      "with 1 to 4 channels, and labels [n], received {} and {}",
                      folder,
                      images->shape_text(),
                      labels.shape_text());
  std::vector<std::int64_t> numbers(labels.shape[0]);
  std::memcpy(numbers.data(), labels.data.data(), labels.data.size());
  const auto& names = request.class_names;
  return planes_dataset(
      {.kind = "npy",
       .images_file = images->file.path(),
       .labels_file = labels.file.path(),
       .shape = {shape[1], shape[2], shape[3]},
       .pixels = images->data,
       .owner = images,
       .labels = numbers,
       .class_names = names.empty() ? numbered_classes(request.options.num_classes) : names,
       .train = request.train});
}

}  // namespace

namespace formats {
DatasetFormat npy() {
  return {
      .holds =
          [](const fs::path& path) { return !folder_with("images.npy", path, true, true).empty(); },
      .open = [](const DatasetRequest& request) -> std::unique_ptr<Dataset> {
        const auto folder =
            folder_with("images.npy", request.path, request.train, request.takes_all());
        return folder.empty() ? nullptr : open_arrays(folder, request);
      },
      .train_files = "images.npy (in this folder or in its folder train/)",
      .test_files = "images.npy in test/, val/ or validation/",
      .is_array = true};
}
}  // namespace formats

}  // namespace dimred::data
