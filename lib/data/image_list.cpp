#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "data/class_names.h"
#include "data/image_files.h"
#include "data/open.h"
#include "data/read_file.h"
#include "data/splits.h"
#include "data/unread_files.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t most_classes = 1'000'000;

struct ListedImage {
  std::string_view path, label;
  std::int64_t line;
};

[[noreturn]] void refuse_label(const std::string& file,
                               const ListedImage& entry,
                               const std::string& rule) {
  fail_environment("[list] {}:{}: {}, received {}", file, entry.line, rule, printable(entry.label));
}

/// The number that all of the text is, infinite where it is too large for a double.
std::optional<double> number_of_text(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  const auto digits = text.substr(hexadecimal ? 2 : 0);
  // Not "inf", "nan".
  if (!hexadecimal && text.find_first_of("0123456789.") != (text.starts_with('-') ? 1 : 0))
    return std::nullopt;
  double number = std::numeric_limits<double>::infinity();
  const auto* const end = text.data() + text.size();
  const auto format = hexadecimal ? std::chars_format::hex : std::chars_format::general;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number, format);
  return read.ptr == end && !digits.empty() ? std::optional(number) : std::nullopt;
}

/// The number of a label, in any spelling of tables: 2, 2.0, +2, "2", 2e0, 0x2. NaN for 2,0, which
/// may be 2 or 20; nullopt for a name.
std::optional<double> number_in_label(std::string_view label) {
  constexpr std::string_view around = "\"'()[],;";
  const auto first = label.find_first_not_of(around);
  if (first == std::string_view::npos) return std::nullopt;
  std::string text(label.substr(first, label.find_last_not_of(around) + 1 - first));
  if (text.starts_with('+')) text.erase(0, 1);
  const auto comma = text.find(',');
  if (comma == std::string::npos) return number_of_text(text);
  text[comma] = '.';
  return number_of_text(text) ? std::optional(std::numeric_limits<double>::quiet_NaN())
                              : std::nullopt;
}

bool is_number(const ListedImage& entry) { return number_in_label(entry.label).has_value(); }

bool is_plain_number(std::string_view label) {
  return label.find_first_not_of("-0123456789") == std::string_view::npos;
}

const char* kind_of_labels(bool numbers) { return numbers ? "number" : "name"; }

/// Labels are all numbers or all names, as the first is.
std::vector<ListedImage> entries_of(std::string_view text, const std::string& file) {
  std::vector<ListedImage> entries;
  require_environment(!is_image_name(file),
                      "[list] {} is one image; needs a folder of images for each class, or a list",
                      file);
  for_each_line(text, [&](std::string_view line, std::int64_t number) {
    const auto blank = line.find_last_of(" \t");
    const bool two = blank != std::string_view::npos && line.find('\0') == std::string_view::npos;
    const auto label = two ? line.substr(blank + 1) : std::string_view();
    // "im 9.jpg" has no label but a blank in its name.
    require_environment(two && !is_image_name(label),
                        "[list] {}:{}: needs \"path label\", received {}{}",
                        file,
                        number,
                        printable(line),
                        placeholder_remark(line));
    entries.push_back({trimmed(line.substr(0, blank)), label, number});
    const auto& first = entries.front();
    if (is_number(entries.back()) != is_number(first))
      refuse_label(file,
                   entries.back(),
                   formatted("needs a {} as line {} has ({})",
                             kind_of_labels(is_number(first)),
                             first.line,
                             printable(first.label)));
  });
  require_environment(
      !entries.empty(), "[list] {}: needs a line for each image, received none", file);
  return entries;
}

std::int32_t number_of(const ListedImage& entry, const std::string& file) {
  const auto value = number_in_label(entry.label).value();
  if (value < 0) refuse_label(file, entry, "needs a label >= 0");
  if (value >= most_classes)
    refuse_label(file, entry, formatted("needs labels < {}", most_classes));
  if (value != std::floor(value))  // NaN, too
    refuse_label(file, entry, "needs whole numbers as labels, or names with a letter");
  return static_cast<std::int32_t>(value);
}

/// Names of numbered classes: those beside the list, which a test set's must equal, else the
/// training set's, else the numbers themselves.
std::vector<std::string> names_of_numbers(const fs::path& names_file,
                                          const std::vector<std::int32_t>& labels,
                                          const std::vector<std::string>& expected) {
  if (names_file.empty()) {
    if (!expected.empty()) return expected;
    return numbered_classes(std::ranges::max(labels) + 1);
  }
  auto names = read_class_names(names_file);
  require_one_naming(names_file, names);
  if (!expected.empty()) require_same_names(names, expected, names_file);
  return names;
}

/// A training set has no empty class, as with class folders. Labels beyond the classes are refused
/// where their lines are read.
void require_no_empty_class(const ImageFileList& list, const std::string& file) {
  const std::set<std::int32_t> used(list.labels.begin(), list.labels.end());
  std::int32_t empty = 0;
  while (used.contains(empty)) ++empty;
  require(empty >= std::ssize(list.class_names),
          "[list] {}: needs at least one image in each class, received none with the label {} ({} "
          "classes, labels {} to {}); number the labels 0, 1, 2, ... without a gap, and list only "
          "these classes in labels.txt",
          file,
          empty,
          list.class_names.size(),
          *used.begin(),
          *used.rbegin());
}

/// The folder that the paths start from: the list's or its `images`, whichever holds the first of
/// the files that are there at all. Cost: two looks for each file that is in neither.
fs::path root_of(const TextList& paths, const fs::path& folder) {
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (const auto& root : {folder, folder / "images"})
      if (fs::exists(root / paths.at(i))) return root;
  }
  return folder;
}

std::string content_of(const fs::path& file) {
  require(
      fs::is_regular_file(file), "[list] needs a file of lines \"path label\", received {}", file);
  for (const auto* end : {".tar", ".gz", ".tgz", ".zip", ".xz", ".bz2", ".7z"})
    require(file.extension() != end,
            "[list] {} is an archive; unpack it and give the folder that it makes",
            file);
  auto text = read_text(file, "list");
  const auto remark = remark_on(file);
  require(remark.empty() && text.find('\0') == std::string::npos,
          "[list] {}: needs a text of lines \"path label\", received {} bytes of something else{}; "
          "give images by their folder or a pattern",
          file,
          text.size(),
          remark);
  return text;
}

/// Whether the labels of a list are numbers, by its first line.
bool has_numbers(const fs::path& file) {
  const auto text = content_of(file);
  return is_number(entries_of(text, path_text(file)).front());
}

/// The file of a list data set, or an empty path.
fs::path list_file(const fs::path& path, bool train) {
  if (fs::is_regular_file(path)) return train ? path : fs::path();
  for (const auto* ending : {".txt", "/label.txt"})
    if (auto file = split_file(path, train, ending); !file.empty()) return file;
  return train && fs::is_regular_file(path / "label.txt") ? path / "label.txt" : fs::path();
}

bool holds_list(const fs::path& path) { return !list_file(path, /*train=*/true).empty(); }

std::unique_ptr<Dataset> open_list(const DatasetRequest& request) {
  auto file = list_file(request.path, request.train);
  if (file.empty() && request.named) file = list_file(request.path, /*train=*/true);
  if (file.empty()) return nullptr;
  const auto& options = request.options;
  const auto is_list = [&] {
    return options.kind == "list" || (!options.path.empty() && kind_of(options.path) == "list");
  };
  std::optional<bool> numbers;
  if (!request.train && is_list() && holds_list(options.path))
    numbers = has_numbers(list_file(options.path, /*train=*/true));
  return open_image_list(file, request.class_names, numbers);
}

/// Refuses a label of digits beyond 0 to 9, which is neither a number nor a name, but for a known
/// one.
void require_name(const ListedImage& entry,
                  const std::string& list,
                  const std::vector<std::string>& class_names) {
  if (has_other_digits_alone(entry.label) && !std::ranges::count(class_names, entry.label))
    refuse_label(list, entry, "needs numbers in the digits 0 to 9, or names with a letter");
}

}  // namespace

ImageFileList parse_image_list(std::string_view text,
                               const std::string& name,
                               const fs::path& names_file,
                               const std::vector<std::string>& class_names,
                               std::optional<bool> numbers) {
  const auto entries = entries_of(text, name);
  const auto& first = entries.front();
  // A folder of the training set may be named 2.0.
  const bool numbered = is_number(first) && (is_plain_number(first.label) ||
                                             !std::ranges::count(class_names, first.label));
  // Another kind of training set has no numbers of its own, unless they are its names.
  const bool expected_numbers =
      numbers.value_or(class_names == numbered_classes(std::ssize(class_names)) ? numbered : false);
  if (!class_names.empty() && numbered != expected_numbers)
    refuse_label(name,
                 first,
                 formatted("needs a {} as the training set's labels are ({} is label 0)",
                           kind_of_labels(expected_numbers),
                           printable(class_names.front())));
  ImageFileList list{.kind = "list"};
  std::set<std::string> names;
  for (const auto& entry : entries) {
    list.paths.add(entry.path);
    if (numbered) {
      list.labels.push_back(number_of(entry, name));
    } else {
      require_name(entry, name, class_names);
      names.emplace(entry.label);
    }
  }
  if (numbered) {
    list.class_names = names_of_numbers(names_file, list.labels, class_names);
  } else {
    list.class_names =
        class_names.empty() ? ordered_classes({names.begin(), names.end()}, {}, name) : class_names;
    const auto labels = labels_of(list.class_names);
    for (const auto& entry : entries) {
      const auto found = labels.find(entry.label);
      list.labels.push_back(found == labels.end() ? labels.size() : found->second);
    }
  }
  const auto bad = std::ranges::find_if(
      list.labels, [&](auto label) { return label >= std::ssize(list.class_names); });
  if (bad != list.labels.end())
    refuse_label(name,
                 entries[bad - list.labels.begin()],
                 formatted("needs one of the {} classes", list.class_names.size()));
  if (class_names.empty()) require_no_empty_class(list, name);
  return list;
}

std::unique_ptr<Dataset> open_image_list(const fs::path& file,
                                         const std::vector<std::string>& class_names,
                                         std::optional<bool> numbers) {
  const auto folder = file.parent_path();
  auto list = parse_image_list(
      content_of(file), path_text(file), class_names_file(folder), class_names, numbers);
  list.root = root_of(list.paths, folder);
  return image_files(std::move(list));
}

namespace formats {
DatasetFormat list() {
  return {.holds = holds_list,
          .open = open_list,
          .train_files = "train.txt or label.txt",
          .test_files = "test.txt, val.txt or validation.txt"};
}
}  // namespace formats

}  // namespace dimred::data
