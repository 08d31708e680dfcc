#include "data/cifar.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "data/paths.h"
#include "data/read_file.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr ImageShape image_shape{3, 32, 32};
constexpr std::size_t image_bytes = 3072;

/// One of the two data sets' files.
struct Form {
  std::vector<std::string> train, test;
  std::string names;
  std::size_t label_bytes;  // the last one is the label
  std::int64_t classes;
  std::size_t record() const { return label_bytes + image_bytes; }
};

const Form& form_10() {
  static const Form form{{"data_batch_1.bin",
                          "data_batch_2.bin",
                          "data_batch_3.bin",
                          "data_batch_4.bin",
                          "data_batch_5.bin"},
                         {"test_batch.bin"},
                         "batches.meta.txt",
                         1,
                         10};
  return form;
}

const Form& form_100() {
  static const Form form{{"train.bin"}, {"test.bin"}, "fine_label_names.txt", 2, 100};
  return form;
}

/// The folder that holds the files, and their form; an empty path where there are none.
struct Found {
  fs::path folder;
  const Form* form = nullptr;
};

Found find(const fs::path& folder) {
  for (const auto& [inner, the_form] : {std::pair{"cifar-10-batches-bin", &form_10()},
                                        std::pair{"cifar-100-binary", &form_100()}}) {
    const auto* form = the_form;  // a structured binding must not be captured
    for (const auto& place : {folder, folder / inner}) {
      const auto is_there = [&](const auto& name) { return fs::is_regular_file(place / name); };
      if (std::ranges::any_of(form->train, is_there)) return {place, form};
    }
  }
  return {};
}

std::vector<std::string> read_names(const fs::path& file, std::int64_t classes) {
  std::vector<std::string> names;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (names.empty()) return numbered_classes(classes);
  require_environment(static_cast<std::int64_t>(names.size()) == classes,
                      "[cifar] {}: needs {} names, received {}",
                      path_text(file),
                      classes,
                      names.size());
  return names;
}

class Cifar : public Dataset {
 public:
  Cifar(const Found& found, bool train)
      : folder_(found.folder),
        record_(found.form->record()),
        label_at_(found.form->label_bytes - 1),
        names_(read_names(found.folder / found.form->names, found.form->classes)) {
    const auto& names = train ? found.form->train : found.form->test;
    std::string missing;
    for (const auto& name : names) {
      if (!fs::is_regular_file(folder_ / name))
        missing += formatted("{}{}", missing.empty() ? "" : ", ", name);
    }
    require(missing.empty(),
            "[cifar] needs all {}{} files in {}, received a folder without {}",
            names.size(),
            train ? " training" : " test",
            path_text(folder_),
            missing);
    std::uintmax_t size = 0;
    for (const auto& name : names) size += fs::file_size(folder_ / name);
    if (names.size() > 1) bytes_.reserve(size);
    for (const auto& name : names) append(name);
    digest_ = dimred::digest(std::as_bytes(std::span(bytes_)));
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(bytes_.size() / record_); }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::optional<ImageShape> shape() const override { return image_shape; }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    require(
        index >= 0 && index < size(), "[cifar] needs 0 <= index < {}, received {}", size(), index);
    const auto record =
        std::span(bytes_).subspan(static_cast<std::size_t>(index) * record_, record_);
    return {.shape = image_shape, .bytes = record.last(image_bytes), .label = record[label_at_]};
  }

  std::string origin(std::int64_t index) const override {
    const auto at = static_cast<std::size_t>(index) * record_;
    const auto file = std::find_if(files_.rbegin(), files_.rend(), [at](const auto& candidate) {
      return candidate.begin <= at;
    });
    return formatted("{}, offset {}", path_text(folder_ / file->name), at - file->begin);
  }

  std::string description() const override {
    return formatted("cifar {}, {} images of 3 x 32 x 32 in {} files, {} classes, xxh3 {}",
                     path_text(folder_),
                     size(),
                     files_.size(),
                     classes(),
                     digest_);
  }
  std::string digest() const override { return digest_; }

 private:
  struct File {
    std::string name;
    std::size_t begin;
  };

  void append(const std::string& name) {
    std::vector<std::uint8_t> content;
    read_file((folder_ / name).string(), "cifar", content);
    const auto path = path_text(folder_ / name);
    require_environment(content.size() % record_ == 0,
                        "[cifar] {}: needs whole records of {} bytes, received {}",
                        path,
                        record_,
                        content.size());
    for (auto at = label_at_; at < content.size(); at += record_) {
      require_environment(content[at] < names_.size(),
                          "[cifar] {}, offset {}: needs a label < {}, received {}",
                          path,
                          at,
                          names_.size(),
                          int{content[at]});
    }
    files_.push_back({name, bytes_.size()});
    if (bytes_.capacity() == 0) {  // a single file
      bytes_ = std::move(content);
    } else {
      bytes_.insert(bytes_.end(), content.begin(), content.end());
    }
  }

  fs::path folder_;
  std::size_t record_, label_at_;
  std::vector<std::string> names_;
  std::vector<File> files_;
  std::vector<std::uint8_t> bytes_;
  std::string digest_;
};

}  // namespace

bool is_cifar(const fs::path& folder) { return find(folder).form != nullptr; }

std::unique_ptr<Dataset> open_cifar(const fs::path& folder, bool train) {
  const auto found = find(folder);
  require(found.form != nullptr,
          "[cifar] needs data_batch_1.bin (CIFAR-10) or train.bin (CIFAR-100) in {}, received a "
          "folder without them",
          path_text(folder));
  return std::make_unique<Cifar>(found, train);
}

}  // namespace dimred::data
