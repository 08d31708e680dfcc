#include "data/idx.h"

#include <algorithm>
#include <string>
#include <vector>

#include "data/idx_array.h"
#include "data/paths.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

fs::path find_file(const fs::path& folder, const std::string& name) {
  for (const auto& path : {folder / name, folder / (name + ".gz")}) {
    if (fs::is_regular_file(path)) return path;
  }
  throw std::invalid_argument(
      formatted("[idx] needs {} or the same with .gz, received {} (Fashion-MNIST is in the Debian "
                "package dataset-fashion-mnist)",
                path_text(folder / name),
                fs::is_directory(folder) ? "a folder without it" : "no such folder"));
}

class IdxDataset : public Dataset {
 public:
  IdxDataset(const fs::path& images_path, const fs::path& labels_path, std::int64_t classes)
      : path_(images_path),
        images_(read_idx_array(images_path, 3)),
        labels_(read_idx_array(labels_path, 1)),
        class_names_(numbered_classes(classes)) {
    const auto count = images_.dimensions[0];
    require_environment(labels_.dimensions[0] == count,
                        "[idx] {}: needs as many labels as images ({}), received {}",
                        path_text(labels_path),
                        count,
                        labels_.dimensions[0]);
    const auto labels = labels_.span();
    const auto bad =
        std::find_if(labels.begin(), labels.end(), [&](auto label) { return label >= classes; });
    require_environment(bad == labels.end(),
                        "[idx] {}: needs labels < {}, received {} at index {}",
                        path_text(labels_path),
                        classes,
                        bad == labels.end() ? 0 : int{*bad},
                        bad - labels.begin());
    shape_ = {1,
              static_cast<std::int64_t>(images_.dimensions[1]),
              static_cast<std::int64_t>(images_.dimensions[2])};
    digests_ = formatted("xxh3 images {} labels {}",
                         dimred::digest(std::as_bytes(images_.span())),
                         dimred::digest(std::as_bytes(labels)));
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::optional<ImageShape> shape() const override { return shape_; }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    require(
        index >= 0 && index < size(), "[idx] needs 0 <= index < {}, received {}", size(), index);
    const auto at = static_cast<std::size_t>(index);
    const auto pixels = static_cast<std::size_t>(shape_.size());
    return {.shape = shape_,
            .bytes = images_.span().subspan(at * pixels, pixels),
            .label = labels_.bytes[at]};
  }

  std::string origin(std::int64_t index) const override {
    return formatted("{}, image {}", path_text(path_), index);
  }

  std::string description() const override {
    return formatted("idx {}, {} images of {} x {}, {}",
                     path_text(path_),
                     size(),
                     shape_.height,
                     shape_.width,
                     digests_);
  }
  std::string digest() const override { return digests_; }

 private:
  fs::path path_;
  IdxArray images_, labels_;
  std::vector<std::string> class_names_;
  ImageShape shape_;
  std::string digests_;
};

}  // namespace

fs::path default_fashion_mnist_folder() { return "/usr/share/datasets/fashion-mnist"; }

std::unique_ptr<Dataset> open_idx(const fs::path& folder, bool train, std::int64_t classes) {
  const std::string prefix = train ? "train" : "t10k";
  const auto images = find_file(folder, prefix + "-images-idx3-ubyte");
  const auto labels = find_file(folder, prefix + "-labels-idx1-ubyte");
  return std::make_unique<IdxDataset>(images, labels, classes);
}

}  // namespace dimred::data
