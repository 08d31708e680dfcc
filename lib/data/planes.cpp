#include "data/planes.h"

#include <algorithm>
#include <utility>

#include "support/digest.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

class LabelledPlanes : public Dataset {
 public:
  explicit LabelledPlanes(Planes planes) : planes_(std::move(planes)) {
    const auto& [kind, images, labels_file, shape, pixels, owner, labels, names, train, digest] =
        planes_;
    const auto file = path_text(labels_file);
    const std::int64_t count = pixels.size() / shape.size();
    require_environment(std::ssize(labels) == count,
                        "[{}] {}: needs as many labels as images ({}), received {}",
                        kind,
                        file,
                        count,
                        labels.size());
    constexpr std::int64_t most = 1'000'000;
    const std::int64_t classes =
        names.empty() ? std::clamp<std::int64_t>(std::ranges::max(labels), 0, most - 1) + 1
                      : std::ssize(names);
    for (std::int64_t i = 0; i < count; ++i)
      require_environment(labels[i] >= 0 && labels[i] < classes,
                          "[{}] {}: needs labels >= 0 and labels < {}{}, received {} at index {}",
                          kind,
                          file,
                          classes,
                          kind == "idx" ? " (num_classes)" : "",
                          labels[i],
                          i);
    facts_ = {
        .size = count,
        .class_names = names.empty() ? numbered_classes(classes) : names,
        .shape = shape,
        .digest = digest.empty()
                      ? formatted("xxh3 images {} labels {}", digest_of(pixels), digest_of(labels))
                      : digest};
  }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    const auto at = checked(index, planes_.kind);
    const std::size_t size = planes_.shape.size();
    return {.shape = planes_.shape,
            .bytes = planes_.pixels.subspan(at * size, size),
            .label = planes_.labels[at]};
  }

  std::string origin(std::int64_t index) const override {
    return formatted("{}, image {}", planes_.images_file, index);
  }

  std::vector<std::string> notes() const override {
    const auto file = path_text(planes_.labels_file);
    std::vector<std::string> notes;
    const auto lowest = std::ranges::min(planes_.labels);
    if (lowest > 0)
      notes.push_back(formatted("{}: no image has the label 0; the lowest is {}", file, lowest));
    const auto gaps = planes_.train ? remark_on_gaps(planes_.labels, "image") : std::string();
    if (!gaps.empty()) notes.push_back(formatted("{}: {}", file, gaps));
    return notes;
  }

  std::string description() const override {
    const auto& shape = planes_.shape;
    return formatted("{} {}, {} images of {}{} x {}, {}",
                     planes_.kind,
                     planes_.images_file,
                     size(),
                     shape.channels == 1 ? "" : formatted("{} x ", shape.channels),
                     shape.height,
                     shape.width,
                     facts_.digest);
  }

 private:
  Planes planes_;
};

}  // namespace

std::unique_ptr<Dataset> planes_dataset(Planes planes) {
  return std::make_unique<LabelledPlanes>(std::move(planes));
}

}  // namespace dimred::data
