#include "data/image_files.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <utility>

#include "data/decode.h"
#include "data/read_file.h"
#include "data/unread_files.h"
#include "support/counted.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/file_state.h"
#include "support/text.h"

namespace dimred::data {
namespace {

bool is_named_png(std::string_view path) { return lower_case(path).ends_with(".png"); }

class ImageFiles : public Dataset {
 public:
  explicit ImageFiles(ImageFileList list) : list_(std::move(list)), misnamed_(list_.labels.size()) {
    DigestStream digest;
    for (std::size_t i = 0; i < list_.labels.size(); ++i) {
      digest.update(list_.paths.at(i));
      digest.update(std::as_bytes(std::span(&list_.labels[i], 1)));
    }
    facts_ = {.size = std::ssize(list_.labels),
              .class_names = std::move(list_.class_names),
              .digest = digest.hex()};
  }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    const auto at = checked(index, "image_files");
    read_file(path(at), "image_files", scratch);
    const auto encoding = sniff(scratch);
    if (!encoding)  // only then: the remark reads the file once more
      fail_environment(
          "[image_files] {}: needs a JPEG or PNG file, received {} bytes of other data{}",
          origin(index),
          scratch.size(),
          remark_on(path(at)));
    if (is_named_png(list_.paths.at(at)) != (*encoding == Encoding::png)) misnamed_[at] = true;
    return {.encoding = *encoding, .bytes = scratch, .label = list_.labels[at]};
  }

  std::string origin(std::int64_t index) const override { return path_text(path(index)); }

  std::vector<std::string> notes() const override {
    auto notes = list_.remarks;
    if (!list_.left_out.empty())
      notes.push_back(
          formatted("dimred skipped folders of other programs: {}", name_list(list_.left_out)));
    const auto is_set = [](const std::atomic<bool>& mark) { return mark.load(); };
    const auto first = std::ranges::find_if(misnamed_, is_set);
    if (first != misnamed_.end())
      notes.push_back(
          formatted("{} files have another format than their names say; dimred uses the format of "
                    "the content; the first such file is {}",
                    std::ranges::count_if(misnamed_, is_set),
                    origin(first - misnamed_.begin())));
    return notes;
  }

  std::string description() const override {
    return formatted("{} {}, {}, {}, {} ignored, xxh3 of paths and labels {}",
                     list_.kind,
                     list_.file.empty() ? list_.root : list_.file,
                     counted(size(), "image"),
                     counted(classes(), "class", "classes"),
                     counted(list_.ignored, "other file"),
                     facts_.digest);
  }

  std::string files_state() const override {
    DigestStream digest;
    for (std::size_t i = 0; i < list_.labels.size(); ++i) {
      // Zeros where there is none: reading it says so.
      const auto state = file_state(path(i)).value_or(FileState{});
      digest.update(std::array{state.bytes, state.seconds, state.nanoseconds});
    }
    return formatted(", xxh3 of sizes and times {}", digest.hex());
  }

 private:
  std::string path(std::size_t at) const { return list_.root / list_.paths.at(at); }

  ImageFileList list_;
  mutable std::vector<std::atomic<bool>> misnamed_;  // as far as they have been read
};

}  // namespace

bool is_left_out(std::string_view name) {
  // In lower case: file systems of Windows and macOS keep any.
  constexpr std::array<std::string_view, 18> names{"#recycle",
                                                   "#snapshot",
                                                   "$recycle.bin",
                                                   "@eadir",
                                                   "@recently-snapshot",
                                                   "@recycle",
                                                   "@synoresource",
                                                   "@tmp",
                                                   "__macosx",
                                                   "__pycache__",
                                                   "_gsdata_",
                                                   "_vti_cnf",
                                                   "_vti_pvt",
                                                   "lost+found",
                                                   "recycler",
                                                   "system volume information",
                                                   "thumbs.db",
                                                   "~snapshot"};
  return name.starts_with('.') || std::ranges::binary_search(names, lower_case(name));
}

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
