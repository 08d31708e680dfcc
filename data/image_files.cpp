#include "data/image_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <span>
#include <utility>

#include "data/decode.h"
#include "data/paths.h"
#include "data/read_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::data {
namespace {

bool is_named_png(std::string_view path) { return lower_case(path).ends_with(".png"); }

class ImageFiles : public Dataset {
 public:
  explicit ImageFiles(ImageFileList list) : list_(std::move(list)) {
    DigestStream digest;
    for (std::size_t i = 0; i < list_.labels.size(); ++i) {
      const auto path = list_.paths.at(i);
      digest.update(std::as_bytes(std::span(path)));
      digest.update(std::as_bytes(std::span(&list_.labels[i], 1)));
    }
    digest_ = digest.hex();
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(list_.labels.size()); }
  const std::vector<std::string>& class_names() const override { return list_.class_names; }
  std::optional<ImageShape> shape() const override { return std::nullopt; }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    require(index >= 0 && index < size(),
            "[image_files] needs 0 <= index < {}, received {}",
            size(),
            index);
    const auto at = static_cast<std::size_t>(index);
    read_file(path(at), "image_files", scratch);
    const auto encoding = sniff(scratch);
    require_environment(
        encoding.has_value(),
        "[image_files] {}: needs a JPEG or PNG file, received {} bytes that begin as neither",
        origin(index),
        scratch.size());
    if (is_named_png(list_.paths.at(at)) != (*encoding == Encoding::png)) note_misnamed(index);
    return {.encoding = *encoding, .bytes = scratch, .label = list_.labels[at]};
  }

  std::string origin(std::int64_t index) const override {
    return path_text(path(static_cast<std::size_t>(index)));
  }

  std::vector<std::string> notes() const override {
    const std::lock_guard lock(mutex_);
    if (misnamed_count_ == 0) return {};
    return {formatted(
        "{} files are not what their names say and were read as what they hold; the first: {}",
        misnamed_count_,
        origin(first_misnamed_))};
  }

  std::string description() const override {
    return formatted(
        "{} {}, {} images, {} classes, {} other files ignored, xxh3 of paths and labels {}",
        list_.kind,
        path_text(list_.root),
        size(),
        classes(),
        list_.ignored,
        digest_);
  }
  std::string digest() const override { return digest_; }

  std::string files_state() const override {
    DigestStream digest;
    for (std::size_t i = 0; i < list_.labels.size(); ++i) {
      struct stat status = {};  // zeros where there is none: reading it says so
      ::stat(path(i).c_str(), &status);
      const std::array<std::int64_t, 3> state{
          status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
      digest.update(std::as_bytes(std::span(state)));
    }
    return formatted(", xxh3 of sizes and times {}", digest.hex());
  }

 private:
  std::string path(std::size_t at) const { return list_.root / list_.paths.at(at); }

  void note_misnamed(std::int64_t index) const {
    const auto at = static_cast<std::size_t>(index);
    const std::lock_guard lock(mutex_);
    if (misnamed_.empty()) misnamed_.resize(list_.labels.size(), false);
    if (misnamed_[at]) return;
    misnamed_[at] = true;
    first_misnamed_ = misnamed_count_++ == 0 ? index : std::min(index, first_misnamed_);
  }

  ImageFileList list_;
  std::string digest_;
  mutable std::mutex mutex_;            // guards what follows
  mutable std::vector<bool> misnamed_;  // empty until there is one
  mutable std::int64_t misnamed_count_ = 0, first_misnamed_ = 0;
};

}  // namespace

bool is_image_name(std::string_view name) {
  if (name.starts_with('.')) return false;
  const auto ending = lower_case(name);
  return ending.ends_with(".jpg") || ending.ends_with(".jpeg") || ending.ends_with(".png");
}

std::unique_ptr<Dataset> image_files(ImageFileList list) {
  check(list.paths.size() == list.labels.size(), "image_files: a label for each path");
  return std::make_unique<ImageFiles>(std::move(list));
}

}  // namespace dimred::data
