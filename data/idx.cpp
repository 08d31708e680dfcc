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
      concat("[idx] needs ",
             path_text(folder / name),
             " or the same with .gz, received ",
             fs::is_directory(folder) ? "a folder without it" : "no such folder",
             " (Fashion-MNIST is in the Debian package dataset-fashion-mnist)"));
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
                        "idx",
                        path_text(labels_path),
                        ": needs as many labels as images (",
                        count,
                        "), received ",
                        labels_.dimensions[0]);
    const auto labels = labels_.span();
    const auto bad =
        std::find_if(labels.begin(), labels.end(), [&](auto label) { return label >= classes; });
    require_environment(bad == labels.end(),
                        "idx",
                        path_text(labels_path),
                        ": needs labels < ",
                        classes,
                        ", received ",
                        bad == labels.end() ? 0 : int{*bad},
                        " at index ",
                        bad - labels.begin());
    shape_ = {1,
              static_cast<std::int64_t>(images_.dimensions[1]),
              static_cast<std::int64_t>(images_.dimensions[2])};
    digests_ = concat("xxh3 images ",
                      dimred::digest(std::as_bytes(images_.span())),
                      " labels ",
                      dimred::digest(std::as_bytes(labels)));
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::optional<ImageShape> shape() const override { return shape_; }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    require(
        index >= 0 && index < size(), "idx", "needs 0 <= index < ", size(), ", received ", index);
    const auto at = static_cast<std::size_t>(index);
    const auto pixels = static_cast<std::size_t>(shape_.size());
    return {.shape = shape_,
            .bytes = images_.span().subspan(at * pixels, pixels),
            .label = labels_.bytes[at]};
  }

  std::string origin(std::int64_t index) const override {
    return concat(path_text(path_), ", image ", index);
  }

  std::string description() const override {
    return concat("idx ",
                  path_text(path_),
                  ", ",
                  size(),
                  " images of ",
                  shape_.height,
                  " x ",
                  shape_.width,
                  ", ",
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
