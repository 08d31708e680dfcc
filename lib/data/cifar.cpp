#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/class_names.h"
#include "data/format.h"
#include "data/read_file.h"
#include "support/bytes.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t image_bytes = 3072;

/// One of the two data sets' files.
struct Form {
  std::string inner;  // folder that the archive has
  std::vector<std::string> train, test;
  std::string names;
  std::size_t label_bytes;  // the last one is the label
  std::int64_t classes;
};

const std::vector<Form> forms{
    {"cifar-10-batches-bin",
     {"data_batch_1.bin",
      "data_batch_2.bin",
      "data_batch_3.bin",
      "data_batch_4.bin",
      "data_batch_5.bin"},
     {"test_batch.bin"},
     "batches.meta.txt",
     1,
     10},
    {"cifar-100-binary", {"train.bin"}, {"test.bin"}, "fine_label_names.txt", 2, 100}};

/// A folder that holds training files, and their form.
struct Place {
  fs::path folder;
  const Form* form;
};

/// Returns the places in the folder and in the folders that the archives make.
std::vector<Place> find(const fs::path& folder) {
  std::vector<Place> found;
  for (const auto& form : forms) {
    for (const auto& candidate : {folder, folder / form.inner}) {
      const auto is_there = [&](const auto& name) { return fs::is_regular_file(candidate / name); };
      if (std::ranges::any_of(form.train, is_there)) found.push_back({candidate, &form});
    }
  }
  return found;
}

std::vector<std::string> read_names(const fs::path& file, std::int64_t classes) {
  std::vector<std::string> names;
  if (fs::exists(file))
    for_each_line(read_text(file, "cifar"),
                  [&](std::string_view line, std::int64_t) { names.emplace_back(line); });
  if (names.empty()) return numbered_classes(classes);
  require_environment(std::ssize(names) == classes,
                      "[cifar] {}: needs {} class names, received {}",
                      file,
                      classes,
                      names.size());
  return names;
}

/// CIFAR-10 or CIFAR-100 in their binary form, resident in memory: 3 x 32 x 32 planes. `folder`
/// (or its cifar-10-batches-bin, cifar-100-binary) holds data_batch_1.bin to data_batch_5.bin and
/// test_batch.bin (records of a label and 3072 bytes), or train.bin and test.bin (a coarse and a
/// fine label, 3072 bytes; the fine one is taken), and the names in batches.meta.txt or
/// fine_label_names.txt; without that file labels are numbers.
/// Format: https://www.cs.toronto.edu/~kriz/cifar.html.
class Cifar : public Dataset {
 public:
  Cifar(const fs::path& folder, const Form& form, bool train)
      : folder_(folder), label_at_(form.label_bytes - 1), record_(form.label_bytes + image_bytes) {
    facts_ = {.class_names = read_names(folder / form.names, form.classes),
              .shape = ImageShape{3, 32, 32}};
    const auto& names = train ? form.train : form.test;
    auto missing = names;
    std::erase_if(missing, [&](const auto& name) { return fs::is_regular_file(folder_ / name); });
    require(missing.empty(),
            "[cifar] needs all {}{} files in {}, received a folder without {}",
            names.size(),
            train ? " training" : " test",
            folder_,
            name_list(missing));
    std::uintmax_t size = 0;
    for (const auto& name : names) size += fs::file_size(folder_ / name);
    if (names.size() > 1) bytes_.reserve(size);
    for (const auto& name : names) append(name);
    facts_.size = bytes_.size() / record_;
    facts_.digest = digest_of(bytes_);
  }

  Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    const auto record = std::span(bytes_).subspan(checked(index, "cifar") * record_, record_);
    return {.shape = *facts_.shape, .bytes = record.last(image_bytes), .label = record[label_at_]};
  }

  std::string origin(std::int64_t index) const override {
    const auto at = index * record_;
    const auto file = std::find_if(
        files_.rbegin(), files_.rend(), [at](const auto& file) { return file.begin <= at; });
    return formatted("{}, offset {}", folder_ / file->name, at - file->begin);
  }

  std::string description() const override {
    return formatted("cifar {}, {} images of 3 x 32 x 32 in {} files, {} classes, xxh3 {}",
                     folder_,
                     size(),
                     files_.size(),
                     classes(),
                     facts_.digest);
  }

 private:
  struct File {
    std::string name;
    std::size_t begin;
  };

  void append(const std::string& name) {
    std::vector<std::uint8_t> content;
    read_file(folder_ / name, "cifar", content);
    const auto path = path_text(folder_ / name);
    require_environment(content.size() % record_ == 0,
                        "[cifar] {}: needs a file size that is a multiple of {} bytes (one "
                        "record), received {} bytes{}",
                        path,
                        record_,
                        content.size(),
                        placeholder_remark(text_of(content)));
    for (auto at = label_at_; at < content.size(); at += record_) {
      require_environment(content[at] < classes(),
                          "[cifar] {}, offset {}: needs a label < {}, received {}",
                          path,
                          at,
                          classes(),
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
  std::size_t label_at_, record_;
  std::vector<File> files_;
  std::vector<std::uint8_t> bytes_;
};

std::unique_ptr<Dataset> open_cifar(const DatasetRequest& request) {
  const auto found = find(request.path);
  require(!found.empty(),
          "[cifar] needs data_batch_1.bin (CIFAR-10) or train.bin (CIFAR-100) in {}, received a "
          "folder without them",
          request.path);
  const auto& [folder, form] = found.front();
  require(found.size() == 1,
          "[cifar] {} has two data sets: {} in {} and {} in {}; put each data set into its own "
          "folder, and give one folder with --data",
          request.path,
          form->train.front(),
          folder,
          found.back().form->train.front(),
          found.back().folder);
  const bool has_test = std::ranges::any_of(
      form->test, [&](const auto& name) { return fs::is_regular_file(folder / name); });
  if (!request.takes_all() && !has_test) return nullptr;
  return std::make_unique<Cifar>(folder, *form, request.train);
}

}  // namespace

namespace formats {
DatasetFormat cifar() {
  return {.holds = [](const fs::path& folder) { return !find(folder).empty(); },
          .open = open_cifar,
          .train_files = "data_batch_1.bin to data_batch_5.bin, or train.bin",
          .test_files = "test_batch.bin or test.bin",
          .is_array = true};
}
}  // namespace formats

}  // namespace dimred::data
